"""What is said of each subject: sentences and tables, made once for the terminal, the page and TSV."""
