"""`python -m pipeline.auditor RELEASE_DIR`."""

import sys

from pipeline.auditor.program import main

sys.exit(main())
