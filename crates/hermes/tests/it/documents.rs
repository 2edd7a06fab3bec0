//! Whether the documents tell the truth.
