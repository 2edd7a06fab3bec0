//! Subscribes to changes: of the lists, in the stateless era, and of single resources in both.

#![expect(
    deprecated,
    reason = "`resources/subscribe` is how legacy servers are asked"
)]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rmcp::model::{
    ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use tokio::sync::watch;

use super::{backoff, serve::SETTLING};
use crate::{era::Era, owner::WantedResources, session::Session};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Follows changes for as long as the session lives.
pub(super) async fn follow(session: &Session, mut wanted: watch::Receiver<WantedResources>) {
    match session.era {
        Era::Stateless => listen(session, &mut wanted).await,
        Era::Legacy => subscribe(session, &mut wanted).await,
    }
}

/// One long request names everything of interest. Changes before it is accepted go unheard, so all is listed anew then.
async fn listen(session: &Session, wanted: &mut watch::Receiver<WantedResources>) {
    // It costs a request and a refresh of the lists.
    if wanted.borrow().is_empty() {
        let _ = tokio::time::timeout(SETTLING, wanted.changed()).await;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let filter = filter(session, &wanted.borrow_and_update());
        if filter == SubscriptionFilter::default() {
            if wanted.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        }
        let began = Instant::now();
        match session.peer.listen(filter).await {
            Ok(mut subscription) => {
                session.traffic.changes.mark_all();
                let asked_anew = loop {
                    tokio::select! {
                        next = subscription.next() => match next {
                            Ok(Some(notification)) => note(session, notification),
                            Ok(None) | Err(_) => break false,
                        },
                        Ok(()) = wanted.changed() => break true,
                    }
                };
                if asked_anew {
                    continue;
                }
            }
            Err(error) => {
                tracing::debug!(server = %session.server, %error, "subscribing to list changes failed");
            }
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(backoff::jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn filter(session: &Session, wanted: &WantedResources) -> SubscriptionFilter {
    let capabilities = &session.info.capabilities;
    let mut filter = SubscriptionFilter::default();
    let changes = |declared: Option<bool>| (declared == Some(true)).then_some(true);
    filter.tools_list_changed = changes(
        capabilities
            .tools
            .as_ref()
            .and_then(|tools| tools.list_changed),
    );
    filter.prompts_list_changed = changes(
        capabilities
            .prompts
            .as_ref()
            .and_then(|prompts| prompts.list_changed),
    );
    filter.resources_list_changed = changes(
        capabilities
            .resources
            .as_ref()
            .and_then(|resources| resources.list_changed),
    );
    if !wanted.is_empty() {
        filter.resource_subscriptions = Some(wanted.keys().cloned().collect());
    }
    filter
}

fn note(session: &Session, notification: ServerNotification) {
    let changes = &session.traffic.changes;
    match notification {
        ServerNotification::ToolListChangedNotification(_) => changes.mark(&changes.tools),
        ServerNotification::ResourceListChangedNotification(_) => changes.mark(&changes.resources),
        ServerNotification::PromptListChangedNotification(_) => changes.mark(&changes.prompts),
        ServerNotification::ResourceUpdatedNotification(update) => {
            session.traffic.resource_updated(update.params.uri);
        }
        _ => {}
    }
}

/// A legacy server is told about each resource by itself.
async fn subscribe(session: &Session, wanted: &mut watch::Receiver<WantedResources>) {
    let mut subscribed = BTreeSet::new();
    let mut renewals = session.traffic.doubt.renewals();
    loop {
        let now: BTreeSet<String> = wanted.borrow_and_update().keys().cloned().collect();
        for uri in now.difference(&subscribed) {
            if let Err(error) = session
                .peer
                .subscribe(SubscribeRequestParams::new(uri.clone()))
                .await
            {
                tracing::debug!(server = %session.server, uri, %error, "subscribing to a resource failed");
            }
        }
        for uri in subscribed.difference(&now) {
            let _ = session
                .peer
                .unsubscribe(UnsubscribeRequestParams::new(uri.clone()))
                .await;
        }
        subscribed = now;
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            // A new MCP session knows of none.
            Ok(()) = renewals.changed() => subscribed.clear(),
        }
    }
}
