//! Packages that `npx`, `uvx` and their like run: which one an entry names, whether it is known malware, and whether it
//! is still being fetched.

pub(crate) mod osv;
pub(crate) mod package;
