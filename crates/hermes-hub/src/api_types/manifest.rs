//! Words of documents of tenants.

use crate::api_types::vocabulary;

vocabulary! {
    /// Which memory.
    MemoryKind {
        /// What the agent noted about its work.
        Memory = "memory",
        /// What the agent knows about its users.
        User = "user",
    }
}

vocabulary! {
    /// What became of a part.
    PartOutcome {
        /// It was not there.
        Created = "created",
        /// It was different.
        Changed = "changed",
        /// It was there and is gone.
        Removed = "removed",
        /// It was so already.
        Unchanged = "unchanged",
    }
}
