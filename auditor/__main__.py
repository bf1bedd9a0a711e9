"""`python -P -m auditor RELEASE_DIR`."""

import sys

from auditor.program import main

sys.exit(main())
