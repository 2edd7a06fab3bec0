use std::path::Path;

use hermes_agent::{
    conversation::{Agent, AgentParts},
    server_requests::elicitation::ElicitationRegistry,
};
use hermes_config::{Home, Platform, PlatformSettings, Settings, sync::Mutex};
use hermes_store::{
    Access, Store,
    mirror::Channel,
    runtime::{InboxState, NewUpdate},
};
use hermes_testkit::eventually;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    access::mentions::MentionRules,
    gateway::{ControlMode, Gateway, GatewayParts},
    inbound::{LiveGateway, routing::chat::LiveAccount},
    instance::Instance,
    platform::{
        Account, Attachment, AttachmentKind, ChatAddress, ChatKind, ClientLimits, CommandSpec,
        FatalError, LivePreview, OutboundMessage, PlatformClient, PlatformHealth, PostError,
        Posted, UpdateIntake,
    },
};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A client with a bug: it panics when a file is downloaded.
struct BrokenClient {
    account: Account,
    posted: Mutex<Vec<String>>,
}

type Done<'a, T> = BoxFuture<'a, Result<T, PostError>>;

fn done<'a, T: Send + 'a>(value: T) -> Done<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl PlatformClient for BrokenClient {
    fn account(&self) -> &Account {
        &self.account
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: 4096,
            caption: 1024,
            measure: |text| text.chars().count(),
            edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
            typing_interval: Duration::from_secs(4),
            album: 10,
        }
    }

    fn receive<'a>(
        &'a self,
        _: &'a dyn UpdateIntake,
        _: &'a PlatformHealth,
        _: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn decode(&self, _: &Value) -> Option<InboundEvent> {
        None
    }

    fn post<'a>(&'a self, _: &'a ChatAddress, message: &'a OutboundMessage) -> Done<'a, Posted> {
        self.posted.lock().push(message.text.clone());
        done(Posted {
            message_id: "1".into(),
            warning: None,
        })
    }

    fn edit<'a>(&'a self, _: &'a ChatAddress, _: &'a str, _: &'a OutboundMessage) -> Done<'a, ()> {
        done(())
    }

    fn delete<'a>(&'a self, _: &'a ChatAddress, _: &'a str) -> Done<'a, ()> {
        done(())
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> Done<'a, ()> {
        done(())
    }

    fn open_preview<'a>(
        &'a self,
        _: &'a ChatAddress,
        _: Option<&'a InboundEvent>,
    ) -> Done<'a, Option<Box<dyn LivePreview>>> {
        done(None)
    }

    fn acknowledge<'a>(&'a self, _: &'a InboundEvent, _: Option<&'a str>) -> Done<'a, ()> {
        done(())
    }

    fn react<'a>(&'a self, _: &'a ChatAddress, _: &'a str, _: &'a str) -> Done<'a, ()> {
        done(())
    }

    fn download<'a>(&'a self, _: &'a Attachment, _: &'a Path, _: u64) -> Done<'a, ()> {
        panic!("a bug of the tests' client")
    }

    fn register_commands<'a>(&'a self, _: &'a [CommandSpec]) -> Done<'a, ()> {
        done(())
    }

    fn list_channels(&self) -> Done<'_, Vec<Channel>> {
        done(Vec::new())
    }

    fn open_thread<'a>(
        &'a self,
        _: &'a ChatAddress,
        _: &'a str,
        _: &'a str,
    ) -> Done<'a, Option<ChatAddress>> {
        done(None)
    }
}

async fn open_gateway(home: &Home) -> Gateway {
    let store = Store::open(home, Access::ReadWrite).await.unwrap();
    let settings = Settings::load(home).unwrap();
    Gateway::open(GatewayParts {
        agent: Agent::new(AgentParts::new(home.clone(), store), settings),
        instance: Arc::new(Instance::acquire(home).unwrap()),
        control_mode: ControlMode::Own,
        directory: home.path().to_owned(),
        elicitation: ElicitationRegistry::unavailable(),
        on_settings: None,
        meter: None,
    })
    .await
    .unwrap()
}

/// A picture of an album.
fn picture(id: &str) -> InboundEvent {
    InboundEvent {
        chat: ChatAddress::new("7001", ChatKind::Dm),
        sender: None,
        sent_at: None,
        kind: InboundKind::Message(Box::new(InboundMessage {
            id: id.into(),
            attachments: vec![Attachment {
                kind: AttachmentKind::Image,
                reference: id.into(),
                name: None,
                mime_type: None,
                size: None,
            }],
            album_id: Some("album".into()),
            ..InboundMessage::default()
        })),
    }
}

#[tokio::test]
async fn a_turn_that_panics_is_told_once_and_all_its_messages_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let gateway = open_gateway(&home).await;
    let live = LiveGateway::start(&gateway).await.unwrap();
    let core = &live.core;
    let client = Arc::new(BrokenClient {
        account: Account::first(Platform::Telegram),
        posted: Mutex::default(),
    });
    core.clients.insert(client.clone());
    let settings = PlatformSettings::default_of(Platform::Telegram);
    let account = Arc::new(LiveAccount {
        account: client.account.clone(),
        client: client.clone(),
        mentions: MentionRules::new(Platform::Telegram, &settings),
        settings,
    });
    let ids = ["1", "2", "3"];
    let updates = ids.map(|id| NewUpdate {
        event_id: id.into(),
        payload: json!({}),
    });
    let store = gateway.store();
    store
        .store_updates("telegram", "", &updates, None)
        .await
        .unwrap();
    let inputs = ids.map(|id| WorkerInput {
        chat: Chat::new(&account, &picture(id), &gateway.agent().settings().gateway),
        event: picture(id),
        key: InboxKey {
            platform: "telegram".into(),
            account: String::new(),
            event_id: id.into(),
        },
        attempts: 0,
        is_left_over: false,
    });
    let turn = WaitingTurn {
        inputs: inputs.to_vec(),
        ..WaitingTurn::new(inputs[0].clone())
    };
    core.spawn_turn(turn, Arc::default(), None).await.unwrap();
    for input in &inputs {
        let stored = store.update(&input.key).await.unwrap().unwrap();
        assert_eq!(stored.state, InboxState::Done, "{}", input.key.event_id);
    }
    let is_told = || !client.posted.lock().is_empty();
    assert!(eventually(TIMEOUT, is_told).await);
    let posted = client.posted.lock().clone();
    assert_eq!(posted.len(), 1, "{posted:?}");
    assert!(posted[0].contains("This is a bug in hermes."), "{posted:?}");
    live.close().await;
    gateway.close().await;
}
