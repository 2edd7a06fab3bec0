//! Sending to fake platforms, over real sockets.

mod discord;
mod failures;
mod media;
mod mirror;
mod slack;
mod target;
mod telegram;

use hermes_config::{Home, Settings, Variables};
use hermes_gateway::send::{MediaPolicy, MessageSender, SendError, SentMessage};
use hermes_testkit::{TemporaryHome, platform::PlatformServer};
use serde_json::{Value, json};

const TOKEN: &str = "123456:AAF-very-secret-token";

/// A home with one fake platform.
struct SendFixture {
    home: TemporaryHome,
    server: PlatformServer,
    variables: Vec<(String, String)>,
}

impl SendFixture {
    fn telegram() -> Self {
        Self::new("TELEGRAM", PlatformServer::telegram(TOKEN))
    }

    fn discord() -> Self {
        Self::new("DISCORD", PlatformServer::discord(TOKEN))
    }

    fn slack() -> Self {
        Self::new("SLACK", PlatformServer::slack(TOKEN))
    }

    fn new(platform: &str, server: PlatformServer) -> Self {
        let variables = vec![
            (format!("{platform}_BOT_TOKEN"), TOKEN.to_owned()),
            (format!("{platform}_BASE_URL"), server.base_url()),
        ];
        Self {
            home: TemporaryHome::new(),
            server,
            variables,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn home(&self) -> Home {
        Home::at(self.home.path())
    }

    fn sender(&self) -> MessageSender {
        let home = self.home();
        let variables = Variables::from_pairs(self.variables.clone());
        let settings = Settings::load_with(&home, variables, Vec::new()).unwrap();
        MessageSender::new(&home, &settings)
    }

    async fn try_send(&self, target: &str, message: &str) -> Result<SentMessage, SendError> {
        self.sender()
            .send(target, message, MediaPolicy::Upload)
            .await
    }

    /// What is said of a message that was sent.
    async fn send(&self, target: &str, message: &str) -> Value {
        json!(self.try_send(target, message).await.unwrap())
    }

    async fn refused(&self, target: &str, message: &str) -> Value {
        let error = self.try_send(target, message).await.unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.hint());
        assert!(!shown.contains("very-secret"), "{shown}");
        json!(error)
    }

    /// The paths that were asked for, without the token.
    fn paths(&self) -> Vec<String> {
        let requests = self.server.requests();
        let paths = requests
            .iter()
            .map(|request| request.path.replace(TOKEN, "…"));
        paths.collect()
    }

    /// One field of every request that has it.
    fn fields(&self, name: &str) -> Vec<Value> {
        let requests = self.server.requests();
        let values = requests.iter().map(|request| request.body[name].clone());
        values.filter(|value| !value.is_null()).collect()
    }
}
