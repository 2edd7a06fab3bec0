//! Notices between nodes: that something has changed in the database, never what. A lost one does no harm, because
//! everything is also read again every two seconds.

use tokio::sync::broadcast;

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
