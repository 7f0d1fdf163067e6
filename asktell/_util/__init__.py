"""What the parts of asktell share and nobody else needs: files, forks, extras, the terminal."""
