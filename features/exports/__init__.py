"""A release's public files in the layouts that others read: census tables, microdata, spreadsheets, measurements."""
