"""The report for readers: `public/report.html`, one page that opens in any browser and asks for nothing."""
