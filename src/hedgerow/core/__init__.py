"""What everything stands on: errors, arrays, labels, domains, preprocessing, moments, and the tables of named parts."""
