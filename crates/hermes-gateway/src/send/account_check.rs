//! Asks a platform about a bot account: whose token it is, and what about the account keeps it from working.
//!
//! A few reading requests, none of which changes anything or disturbs a gateway that is connected with the same token.

use std::time::Duration;

use hermes_agent::policy::{Egress, PolicyHandle};
use hermes_config::{Platform, PlatformSettings, Redactor, Secret};
use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::Value;

use super::{
    error::{PlatformFailure, SendError},
    http::{self, PlatformApi, PlatformReply, ReachableAddresses, RequestBody},
};
use crate::platforms::Account;

/// Scopes that the bot token of a Slack app needs.
pub const SLACK_SCOPES: [&str; 17] = [
    "app_mentions:read",
    // Agent sessions: the status, and the button that stops an answer.
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:write",
    "users:read",
];

/// Permissions that a Discord bot asks for: view channels, send messages (in threads too), create public threads, embed
/// links, attach files, send voice messages, read the history, add reactions.
pub const DISCORD_PERMISSIONS: u64 = 1 << 6 // add reactions
    | 1 << 10 // view channels
    | 1 << 11 // send messages
    | 1 << 14 // embed links
    | 1 << 15 // attach files
    | 1 << 16 // read message history
    | 1 << 35 // create public threads
    | 1 << 38 // send messages in threads
    | 1 << 46; // send voice messages

/// Flags of a Discord application that may read the text of messages: approved, or in fewer than 100 servers.
const MESSAGE_CONTENT_FLAGS: u64 = 1 << 18 | 1 << 19;

/// One account to ask about.
#[derive(Debug)]
pub struct AccountCheck<'a> {
    pub account: &'a Account,
    /// The address and proxy of the platform.
    pub settings: &'a PlatformSettings,
    pub token: &'a Secret<String>,
    /// Slack's second token.
    pub app_token: Option<&'a Secret<String>>,
    pub timeout: Duration,
}

/// What the platform says about an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedAccount {
    /// The bot's id; of a Discord bot, also of its application.
    pub id: String,
    /// The name that people write to: `@my_bot`.
    pub name: String,
    /// The Slack workspace.
    pub workspace: Option<String>,
    pub problems: Vec<AccountProblem>,
}

/// Something about the account that has to be changed with the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountProblem {
    /// A word for programs.
    pub code: &'static str,
    pub message: String,
    pub fix: String,
    /// Whether no message arrives until it is fixed.
    pub is_fatal: bool,
}

/// The address at which a Discord bot is invited into a server.
pub fn discord_invite_url(application: &str) -> String {
    format!(
        "https://discord.com/oauth2/authorize?client_id={application}&scope=bot%20applications.commands&permissions={DISCORD_PERMISSIONS}"
    )
}

impl AccountCheck<'_> {
    /// Asks. A token that is refused is an error, other problems are listed.
    pub async fn run(&self) -> Result<CheckedAccount, SendError> {
        let client = http::build_client(self.account.platform, self.settings, &Egress::default())?;
        let secrets = [Some(self.token), self.app_token];
        let redactor = Redactor::new(secrets.into_iter().flatten().cloned());
        let api = PlatformApi {
            settings: self.settings,
            addresses: ReachableAddresses::new(self.settings, &PolicyHandle::default()),
            token: self.token,
            client: &client,
            timeout: self.timeout,
            redactor: &redactor,
        };
        let checked = match self.account.platform {
            Platform::Telegram => check_telegram(&api, self.account).await,
            Platform::Discord => check_discord(&api).await,
            Platform::Slack => check_slack(&api, self.account, self.app_token).await,
        };
        checked.map_err(|failure| SendError::Failed {
            account: self.account.clone(),
            failure,
            sent_chunks: 0,
        })
    }
}

async fn check_telegram(
    api: &PlatformApi<'_>,
    account: &Account,
) -> Result<CheckedAccount, PlatformFailure> {
    let base = api.base_url();
    let bot = if base.ends_with("/bot") { "" } else { "/bot" };
    let address = format!("{base}{bot}{}", api.token.expose());
    let call = async |method: &str| {
        let url = format!("{address}/{method}");
        let headers = HeaderMap::new();
        let reply = api
            .call(Method::POST, &url, &headers, &RequestBody::Nothing, &[])
            .await?;
        if reply.is_success() && reply.body["ok"] == true {
            return Ok(reply.body["result"].clone());
        }
        Err(api.refusal(&reply, reply.body["description"].as_str()))
    };
    let me = call("getMe").await?;
    let mut problems = Vec::new();
    if me["can_read_all_group_messages"] == false {
        problems.push(AccountProblem {
            code: "privacy_mode",
            message: "privacy mode is on: in groups the bot sees only commands, mentions and replies to it".into(),
            fix: "to let it read all messages of a group: @BotFather, /setprivacy, Disable; then remove the bot from the group and add it again".into(),
            is_fatal: false,
        });
    }
    // An older or own server may not know this one.
    let webhook = call("getWebhookInfo").await.unwrap_or_default();
    problems.extend(find_webhook_problem(account, api.settings, &webhook));
    Ok(CheckedAccount {
        id: text_or_number(&me["id"]),
        name: format!("@{}", me["username"].as_str().unwrap_or_default()),
        workspace: None,
        problems,
    })
}

/// What to do where Telegram cannot reach the webhook.
pub fn webhook_unreachable_fix(account: &Account) -> String {
    format!(
        "check that the address in `{url}` leads to the gateway, and its certificate; without `{url}` updates are polled",
        url = account.variable("WEBHOOK_URL")
    )
}

/// What is wrong with the webhook that is set: it is another program's, or Telegram cannot reach ours.
fn find_webhook_problem(
    account: &Account,
    settings: &PlatformSettings,
    webhook: &Value,
) -> Option<AccountProblem> {
    let address = webhook["url"].as_str().filter(|url| !url.is_empty())?;
    let host = url::Url::parse(address);
    let host = host.ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.as_deref().unwrap_or("an unknown host");
    let own = settings.webhook.as_ref();
    if own.is_some_and(|own| own.url == address) {
        // Kept by Telegram until a delivery succeeds.
        let reason = webhook["last_error_message"].as_str()?;
        return Some(AccountProblem {
            code: "webhook_unreachable",
            message: format!("Telegram cannot deliver updates to the webhook at {host}: {reason}"),
            fix: webhook_unreachable_fix(account),
            is_fatal: false,
        });
    }
    let fix = if own.is_some() {
        "the gateway sets its own when it starts; if another program needs this one, that one needs a bot of its own"
    } else {
        "the gateway removes it when it starts; if another program needs it, that one needs a bot of its own"
    };
    Some(AccountProblem {
        code: "webhook_set",
        message: format!("a webhook is set ({host}): updates go there"),
        fix: fix.into(),
        is_fatal: false,
    })
}

async fn check_discord(api: &PlatformApi<'_>) -> Result<CheckedAccount, PlatformFailure> {
    let headers = authorization(api, "Bot", api.token)?;
    let get = async |path: &str| {
        let url = format!("{}{path}", api.base_url());
        let reply = api
            .call(Method::GET, &url, &headers, &RequestBody::Nothing, &[])
            .await?;
        if reply.is_success() && reply.body.is_object() {
            return Ok(reply.body);
        }
        Err(api.refusal(&reply, reply.body["message"].as_str()))
    };
    let me = get("/users/@me").await?;
    let application = get("/applications/@me").await.unwrap_or_default();
    let mut problems = Vec::new();
    let flags = application["flags"].as_u64();
    if flags.is_some_and(|flags| flags & MESSAGE_CONTENT_FLAGS == 0) {
        problems.push(AccountProblem {
            code: "missing_intent",
            message: "the `Message Content Intent` is off: messages arrive without text".into(),
            fix: "https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents: turn on `Message Content Intent`".into(),
            is_fatal: true,
        });
    }
    let endpoint = application["interactions_endpoint_url"].as_str();
    if endpoint.is_some_and(|url| !url.is_empty()) {
        problems.push(AccountProblem {
            code: "interactions_endpoint",
            message: "an `Interactions Endpoint URL` is set: buttons and slash commands go there and never arrive here".into(),
            fix: "https://discord.com/developers/applications, your application, General Information: empty `Interactions Endpoint URL`".into(),
            is_fatal: false,
        });
    }
    Ok(CheckedAccount {
        id: text_or_number(match application.get("id") {
            Some(id) => id,
            None => &me["id"],
        }),
        name: format!("@{}", me["username"].as_str().unwrap_or_default()),
        workspace: None,
        problems,
    })
}

async fn check_slack(
    api: &PlatformApi<'_>,
    account: &Account,
    app_token: Option<&Secret<String>>,
) -> Result<CheckedAccount, PlatformFailure> {
    let reply = call_slack(api, "auth.test", api.token).await?;
    let mut problems = Vec::new();
    let scopes = reply.headers.get("x-oauth-scopes");
    if let Some(scopes) = scopes.and_then(|scopes| scopes.to_str().ok()) {
        let granted: Vec<&str> = scopes.split(',').map(str::trim).collect();
        let missing: Vec<&str> = SLACK_SCOPES
            .into_iter()
            .filter(|scope| !granted.contains(scope))
            .collect();
        if !missing.is_empty() {
            problems.push(AccountProblem {
                code: "missing_scope",
                message: format!("the bot token lacks {}", list_names(&missing)),
                fix: "https://api.slack.com/apps, your app, OAuth & Permissions: add them as Bot Token Scopes, then reinstall the app".into(),
                is_fatal: false,
            });
        }
    }
    match app_token {
        None => problems.push(AccountProblem {
            code: "missing_app_token",
            message: missing_app_token(account),
            fix: format!(
                "https://api.slack.com/apps, your app, Basic Information, App-Level Tokens: generate one with `connections:write`; then `{}`",
                account.setup_command()
            ),
            is_fatal: true,
        }),
        Some(app_token) => {
            if let Err(failure) = call_slack(api, "apps.connections.open", app_token).await {
                problems.push(app_token_problem(account, &failure));
            }
        }
    }
    let text = |key: &str| reply.body[key].as_str().unwrap_or_default().to_owned();
    Ok(CheckedAccount {
        id: text("user_id"),
        name: format!("@{}", text("user")),
        workspace: Some(text("team")).filter(|team| !team.is_empty()),
        problems,
    })
}

/// What is said where Slack's second token is not set.
pub fn missing_app_token(account: &Account) -> String {
    format!(
        "{} (xapp-…) is not set: messages can be sent, none are received",
        account.variable("APP_TOKEN")
    )
}

fn app_token_problem(account: &Account, failure: &PlatformFailure) -> AccountProblem {
    let reason = match failure {
        PlatformFailure::Refused { reason, .. } => reason.as_str(),
        _ => "no reply",
    };
    let fix = match reason {
        "missing_scope" | "not_allowed_token_type" => {
            "the app token needs the scope `connections:write`, and begins with `xapp-`: Basic Information, App-Level Tokens"
                .into()
        }
        "socket_mode_disabled" | "forbidden" => {
            "https://api.slack.com/apps, your app, Socket Mode: turn it on".into()
        }
        _ => format!(
            "generate another one: Basic Information, App-Level Tokens; then `{}`",
            account.setup_command()
        ),
    };
    AccountProblem {
        code: "bad_app_token",
        message: format!(
            "{} does not open a connection: {reason}",
            account.variable("APP_TOKEN")
        ),
        fix,
        is_fatal: true,
    }
}

async fn call_slack(
    api: &PlatformApi<'_>,
    method: &str,
    token: &Secret<String>,
) -> Result<PlatformReply, PlatformFailure> {
    let headers = authorization(api, "Bearer", token)?;
    let url = format!("{}/{method}", api.base_url());
    let reply = api
        .call(Method::POST, &url, &headers, &RequestBody::Nothing, &[])
        .await?;
    match (reply.body["ok"].as_bool(), reply.body["error"].as_str()) {
        (Some(true), _) if reply.is_success() => Ok(reply),
        (Some(false), Some(error)) => Err(api.refused(error)),
        _ => Err(api.refusal(&reply, None)),
    }
}

fn authorization(
    api: &PlatformApi<'_>,
    scheme: &str,
    token: &Secret<String>,
) -> Result<HeaderMap, PlatformFailure> {
    let value = HeaderValue::try_from(format!("{scheme} {}", token.expose()));
    let mut value = value.map_err(|_| api.refused("the token has invalid characters"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

fn text_or_number(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn list_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use hermes_config::WebhookSettings;
    use serde_json::json;

    use super::*;

    fn first() -> Account {
        Account::first(Platform::Telegram)
    }

    #[test]
    fn a_further_account_is_told_of_its_own_variables() {
        let account = Account {
            platform: Platform::Slack,
            name: "work".into(),
        };
        let refused = PlatformFailure::Refused {
            status: None,
            reason: "invalid_auth".into(),
        };
        let problem = app_token_problem(&account, &refused);
        assert!(problem.message.starts_with("SLACK_APP_TOKEN_WORK "));
        assert!(problem.fix.contains("--platform slack --account work"));
        assert!(missing_app_token(&account).starts_with("SLACK_APP_TOKEN_WORK "));
    }

    #[test]
    fn only_a_webhook_of_others_or_one_that_fails_is_a_problem() {
        let mut settings = PlatformSettings::default_of(Platform::Telegram);
        let problem = |settings: &PlatformSettings, webhook: Value| {
            find_webhook_problem(&first(), settings, &webhook).map(|problem| problem.code)
        };
        assert_eq!(problem(&settings, json!({"url": ""})), None);
        let set = json!({"url": "https://box.example/hook"});
        assert_eq!(problem(&settings, set.clone()), Some("webhook_set"));
        settings.webhook = Some(WebhookSettings {
            url: "https://box.example/hook".into(),
            secret: Secret::new("s".into()),
            host: "127.0.0.1".into(),
            port: 8443,
        });
        assert_eq!(problem(&settings, set), None);
        let other = json!({"url": "https://other.example/hook"});
        assert_eq!(problem(&settings, other), Some("webhook_set"));
        let failing = json!({
            "url": "https://box.example/hook", "last_error_message": "Connection refused",
        });
        let told = find_webhook_problem(&first(), &settings, &failing).unwrap();
        assert_eq!(told.code, "webhook_unreachable");
        assert!(
            told.message.contains("box.example: Connection refused"),
            "{}",
            told.message
        );
    }
}
