//! Albums in groups. Their pictures come as messages of their own, and usually one of them has the words that address the
//! bot: the others belong to it, whether they come before or after.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::sync::Mutex;

use crate::{
    inbound::{
        InboundCore, accounts::intake::StoredUpdate, routing::chat::LiveAccount,
        session_worker::waiting_turns::ALBUM_QUIET,
    },
    platform::{InboundEvent, InboundKind},
};

/// How long it is known whether an album was meant for the bot. Its parts come within seconds.
const REMEMBERED: Duration = Duration::from_mins(1);

/// The account, the chat, and the platform's name of the album.
type AlbumKey = (String, String, String);

/// The albums of which parts came lately.
#[derive(Default)]
pub(in crate::inbound) struct GroupAlbums(Mutex<HashMap<AlbumKey, GroupAlbum>>);

enum GroupAlbum {
    /// Nothing has addressed the bot yet.
    Waiting(Vec<StoredUpdate>),
    Addressed,
    /// Nothing has, for long enough.
    NotAddressed,
}

/// What is known of the album of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum AlbumAddress {
    /// Another part of it addresses the bot.
    Addressed,
    /// Another part may: the message waits for it.
    Open,
    /// It is no part of an album, or of one that is not for the bot.
    No,
}

fn album_key(account: &LiveAccount, event: &InboundEvent) -> Option<AlbumKey> {
    let InboundKind::Message(message) = &event.kind else {
        return None;
    };
    let album = message
        .album_id
        .clone()
        .filter(|_| !event.chat.is_direct())?;
    Some((account.account.label(), event.chat.id.clone(), album))
}

impl InboundCore {
    pub(in crate::inbound) fn album_address(
        &self,
        account: &LiveAccount,
        event: &InboundEvent,
    ) -> AlbumAddress {
        let Some(key) = album_key(account, event) else {
            return AlbumAddress::No;
        };
        match self.albums.0.lock().get(&key) {
            Some(GroupAlbum::Addressed) => AlbumAddress::Addressed,
            Some(GroupAlbum::NotAddressed) => AlbumAddress::No,
            Some(GroupAlbum::Waiting(_)) | None => AlbumAddress::Open,
        }
    }

    /// Keeps a part of an album until another one addresses the bot, or none does for a while.
    pub(in crate::inbound) fn await_album(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        event: &InboundEvent,
        update: &StoredUpdate,
    ) {
        let Some(key) = album_key(account, event) else {
            return;
        };
        let is_first = {
            let mut albums = self.albums.0.lock();
            let album = albums.entry(key.clone());
            let album = album.or_insert_with(|| GroupAlbum::Waiting(Vec::new()));
            let GroupAlbum::Waiting(waiting) = album else {
                return;
            };
            waiting.push(update.clone());
            waiting.len() == 1
        };
        if is_first {
            let (core, account) = (self.clone(), account.clone());
            self.tasks.spawn(async move {
                let quiet = tokio::time::sleep(ALBUM_QUIET);
                // What waits when the gateway stops is found in the inbox by the next one.
                if core.stop.run_until_cancelled(quiet).await.is_some() {
                    core.settle_album(&account, key, GroupAlbum::NotAddressed)
                        .await;
                }
            });
        }
    }

    /// A message addresses the bot: so does its album. What waited for that goes on, before the message.
    pub(in crate::inbound) async fn address_album(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        event: &InboundEvent,
    ) {
        if let Some(key) = album_key(account, event) {
            self.settle_album(account, key, GroupAlbum::Addressed).await;
        }
    }

    async fn settle_album(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        key: AlbumKey,
        settled: GroupAlbum,
    ) {
        let before = {
            let mut albums = self.albums.0.lock();
            // A part that addressed the bot meanwhile counts.
            if matches!(settled, GroupAlbum::NotAddressed)
                && !matches!(albums.get(&key), Some(GroupAlbum::Waiting(_)))
            {
                return;
            }
            albums.insert(key.clone(), settled)
        };
        if !matches!(before, Some(GroupAlbum::Addressed)) {
            let core = self.clone();
            self.tasks.spawn(async move {
                core.stop
                    .run_until_cancelled(tokio::time::sleep(REMEMBERED))
                    .await;
                core.albums.0.lock().remove(&key);
            });
        }
        if let Some(GroupAlbum::Waiting(waiting)) = before {
            for update in waiting {
                self.taken.lock().remove(&update.key);
                self.dispatch_again(account, update).await;
            }
        }
    }

    /// Boxed: it is dispatched while another one is.
    fn dispatch_again<'a>(
        self: &'a Arc<Self>,
        account: &'a Arc<LiveAccount>,
        update: StoredUpdate,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.dispatch(account, update))
    }
}
