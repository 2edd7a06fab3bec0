//! Commands: requests that need a tenant's home, from the node that got them to the node that holds the tenant's lease.
//! Request and reply are encrypted by whoever writes them.

use std::time::Duration;

use async_trait::async_trait;

use super::StateError;
use crate::TenantId;

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
