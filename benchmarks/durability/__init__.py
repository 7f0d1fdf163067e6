"""Whether anything is lost: crashes, many processes, malformed input."""
