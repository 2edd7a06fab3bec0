//! Subscribes to changes: of the lists, in the stateless era, and of single resources in both.

#![expect(
    deprecated,
    reason = "`resources/subscribe` is how legacy servers are asked"
)]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hermes_config::random::add_jitter;
use rmcp::model::{
    ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use tokio::sync::watch;

use crate::connection::{
    era::Era, handle::ResourceSubscriptions, session::McpSession, session_loop::REFRESH_DELAY,
};

const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// Follows changes for as long as the session lives.
pub(super) async fn follow_changes(
    session: &McpSession,
    mut wanted: watch::Receiver<ResourceSubscriptions>,
) {
    match session.era {
        Era::Stateless => listen_stateless(session, &mut wanted).await,
        Era::Legacy => subscribe_legacy(session, &mut wanted).await,
    }
}

/// One long request names everything of interest. Changes before it is accepted go unheard, so everything is listed again then.
async fn listen_stateless(
    session: &McpSession,
    wanted: &mut watch::Receiver<ResourceSubscriptions>,
) {
    // It costs a request and a refresh of the lists.
    if wanted.borrow().is_empty() {
        let _ = tokio::time::timeout(REFRESH_DELAY, wanted.changed()).await;
    }
    let mut pause = MIN_RETRY_DELAY;
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
                session.activity.changes.mark_all();
                let asked_anew = loop {
                    tokio::select! {
                        next = subscription.next() => match next {
                            Ok(Some(notification)) => record_notification(session, notification),
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
                tracing::debug!(server = %session.server, %error, "failed to subscribe to list changes");
            }
        }
        if began.elapsed() > MAX_RETRY_DELAY {
            pause = MIN_RETRY_DELAY;
        }
        tokio::time::sleep(add_jitter(pause)).await;
        pause = (pause * 2).min(MAX_RETRY_DELAY);
    }
}

fn filter(session: &McpSession, wanted: &ResourceSubscriptions) -> SubscriptionFilter {
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

fn record_notification(session: &McpSession, notification: ServerNotification) {
    let changes = &session.activity.changes;
    match notification {
        ServerNotification::ToolListChangedNotification(_) => changes.mark(&changes.tools),
        ServerNotification::ResourceListChangedNotification(_) => changes.mark(&changes.resources),
        ServerNotification::PromptListChangedNotification(_) => changes.mark(&changes.prompts),
        ServerNotification::ResourceUpdatedNotification(update) => {
            session.activity.publish_resource_update(update.params.uri);
        }
        _ => {}
    }
}

/// A legacy server is told about each resource by itself.
async fn subscribe_legacy(
    session: &McpSession,
    wanted: &mut watch::Receiver<ResourceSubscriptions>,
) {
    let mut subscribed = BTreeSet::new();
    let mut renewals = session.activity.health.subscribe_renewals();
    loop {
        let now: BTreeSet<String> = wanted.borrow_and_update().keys().cloned().collect();
        for uri in now.difference(&subscribed) {
            if let Err(error) = session
                .peer
                .subscribe(SubscribeRequestParams::new(uri.clone()))
                .await
            {
                tracing::debug!(server = %session.server, uri, %error, "failed to subscribe to a resource");
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
