//! The tests of files once more, in object storage, and what is true of that alone.

#[path = "files/attacks.rs"]
mod attacks;
mod blobs;
#[path = "files/changes.rs"]
mod changes;
#[path = "files/quotas.rs"]
mod quotas;
#[path = "files/reading.rs"]
mod reading;
#[path = "files/searching.rs"]
mod searching;
#[path = "files/writing.rs"]
mod writing;
