"""The local model: releases from reports that were randomised by their senders, `[collect]` of a spec."""
