//! Deliveries to a bot's webhook, as a reverse proxy passes them on.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::TelegramServer;

/// A bot that takes longer fails the delivery.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

impl TelegramServer {
    /// Delivers the waiting updates, in order, to the program that listens for the webhook's address. Those that it does
    /// not confirm stay. Returns the status of each delivery.
    ///
    /// # Panics
    ///
    /// If the bot has set no webhook.
    pub async fn deliver_to_webhook(&self, listener: SocketAddr) -> Vec<u16> {
        let webhook = self.world().lock().updates.webhook.clone();
        let Some(webhook) = webhook else {
            panic!("the bot has set no webhook");
        };
        let path = match url::Url::parse(&webhook.url) {
            Ok(url) => url.path().to_owned(),
            Err(_) => "/".to_owned(),
        };
        let mut statuses = Vec::new();
        while let Some(update) = self.waiting_updates().into_iter().next() {
            let posted = post(listener, &path, webhook.secret.as_deref(), &update);
            let status = match timeout(REPLY_TIMEOUT, posted).await {
                Ok(Ok(status)) => status,
                _ => 0,
            };
            if status != 200 {
                let error = match status {
                    0 => "Connection refused",
                    _ => "Wrong response from the webhook",
                };
                self.world().lock().updates.webhook_error = Some(error);
            }
            statuses.push(status);
            if status != 200 {
                break;
            }
            self.world().lock().updates.take_first();
        }
        statuses
    }
}

/// Posts an update; returns the status of the reply.
async fn post(
    listener: SocketAddr,
    path: &str,
    secret: Option<&str>,
    update: &Value,
) -> io::Result<u16> {
    let body = update.to_string();
    let secret = secret.map_or_else(String::new, |secret| {
        format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n")
    });
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: bot.example\r\nContent-Type: application/json\r\n{secret}Content-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(listener).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    let reply = String::from_utf8_lossy(&reply);
    let status = reply.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
