//! What nodes tell each other.
//!
//! Notices say that something has changed in the database, never what. A lost one does no harm, because everything is also
//! read again every two seconds. Commands are requests that need a tenant's home, from the node that got them to the node
//! that holds the tenant's lease. Request and reply are encrypted by whoever writes them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::StateError;
use crate::{GroupId, RunId, TenantId};

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// There is work that may have no node yet: a queued run, a free lease.
    Work,
    /// Policy, configuration or specialization.
    Documents,
    /// Skills of the library or of groups.
    Skills,
    Tenant(TenantId),
    /// A group's quota, or that it is gone.
    Group(GroupId),
    /// A run got events, or somebody has decided something about it.
    Run(RunId),
    /// Commands for a node, or replies to its own.
    Commands {
        node: String,
    },
    /// Events of the Hub were stored. The state itself wakes those who wait for them.
    Events,
    /// Anything: notices may have been lost.
    Everything,
}

impl Notice {
    /// As one word.
    pub fn to_word(&self) -> String {
        match self {
            Self::Work => "work".to_owned(),
            Self::Documents => "documents".to_owned(),
            Self::Skills => "skills".to_owned(),
            Self::Tenant(tenant) => format!("tenant:{tenant}"),
            Self::Group(group) => format!("group:{group}"),
            Self::Run(run) => format!("run:{run}"),
            Self::Commands { node } => format!("commands:{node}"),
            Self::Events => "events".to_owned(),
            Self::Everything => "everything".to_owned(),
        }
    }

    /// A word of a newer version means anything.
    pub fn from_word(word: &str) -> Self {
        let known = match word.split_once(':') {
            None if word == "work" => Some(Self::Work),
            None if word == "documents" => Some(Self::Documents),
            None if word == "skills" => Some(Self::Skills),
            None if word == "events" => Some(Self::Events),
            Some(("tenant", id)) => TenantId::parse(id).ok().map(Self::Tenant),
            Some(("group", id)) => GroupId::parse(id).ok().map(Self::Group),
            Some(("run", id)) => RunId::parse(id).ok().map(Self::Run),
            Some(("commands", node)) => Some(Self::Commands { node: node.into() }),
            _ => None,
        };
        known.unwrap_or(Self::Everything)
    }
}

/// How nodes tell each other that something has changed. The only node tells nobody.
pub trait NoticeStore: Send + Sync {
    /// Tells the other nodes soon. Never waits, and never fails.
    fn notify(&self, _notice: Notice) {}

    /// Notices of other nodes from now on. Call it inside a tokio runtime.
    fn listen(&self) -> Option<broadcast::Receiver<Notice>> {
        None
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCommand {
    pub id: String,
    pub tenant: TenantId,
    pub request: Vec<u8>,
}

/// Commands between nodes. There are none on the only node.
#[async_trait]
pub trait CommandStore: Send + Sync {
    /// Gives a node a command that is valid for this long.
    async fn send_command(
        &self,
        _node: &str,
        _command: NodeCommand,
        _lasting: Duration,
    ) -> Result<(), StateError> {
        Err(StateError::NotFound { what: "node" })
    }

    /// Takes the commands for this node that are still valid, each once.
    async fn take_commands(&self, _most: u32) -> Result<Vec<NodeCommand>, StateError> {
        Ok(Vec::new())
    }

    async fn answer_command(&self, _id: &str, _reply: &[u8]) -> Result<(), StateError> {
        Ok(())
    }

    /// The reply to a command, once there is one. It is forgotten then.
    async fn take_reply(&self, _id: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(None)
    }

    /// Withdraws a command that nobody has taken. Returns whether that was so.
    async fn withdraw_command(&self, _id: &str) -> Result<bool, StateError> {
        Ok(false)
    }

    /// Deletes commands whose time is over.
    async fn forget_commands(&self) -> Result<u64, StateError> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_one_word_and_an_unknown_word_means_anything() {
        let notices = [
            Notice::Work,
            Notice::Documents,
            Notice::Skills,
            Notice::Tenant(TenantId::parse("acme").unwrap()),
            Notice::Group(GroupId::parse("team").unwrap()),
            Notice::Run(RunId::random().unwrap()),
            Notice::Commands { node: "n1".into() },
            Notice::Events,
            Notice::Everything,
        ];
        for notice in notices {
            let word = notice.to_word();
            assert!(!word.contains(' '), "{word}");
            assert_eq!(Notice::from_word(&word), notice);
        }
        for word in ["", "tenant:", "webhook:1", "run"] {
            assert_eq!(Notice::from_word(word), Notice::Everything, "{word}");
        }
    }
}
