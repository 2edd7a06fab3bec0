//! A Hub with a database file is the only node: it holds every lease, notifies nobody, and nothing is stored about that.

use super::SqliteState;
use crate::storage::state::{CommandStore, LeaseStore, NoticeStore};

impl LeaseStore for SqliteState {}

impl NoticeStore for SqliteState {}

impl CommandStore for SqliteState {}
