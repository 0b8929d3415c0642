"""What is said of given texts: accepted, or refused at which byte."""
