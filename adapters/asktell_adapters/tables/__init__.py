"""Tables of rows: files of data sets, of prompts and of recorded scores."""
