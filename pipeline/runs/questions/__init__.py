"""Questions on the records: asked, explained, verified and drawn again."""
