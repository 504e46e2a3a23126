"""Record rules, fixes and policies: which records are kept, which are repaired, and who decides."""
