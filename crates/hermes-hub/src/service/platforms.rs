//! Messaging platforms of a tenant: tokens are variables of the tenant, everything else is in `config.yaml` of its home. A
//! tenant with a platform does not sleep.

use std::collections::{BTreeMap, BTreeSet};

use hermes_config::{Platform, PlatformSettings, UnauthorizedDm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    TenantRef,
    env::encrypt_variables,
    home_config::{change_config, own_variables},
};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{PlatformName, StrangerReply},
    hub::ChangeEffects,
    service::call::{Call, Reply},
    storage::state::TenantChange,
};

mod health;
mod keys;

use health::BotReport;
use keys::{PlatformKey, own_keys, set_key, unset_everywhere};

fn platform_of(name: PlatformName) -> Platform {
    match name {
        PlatformName::Telegram => Platform::Telegram,
        PlatformName::Discord => Platform::Discord,
        PlatformName::Slack => Platform::Slack,
    }
}

/// The variables that hold the tokens of a platform.
fn token_variables(name: PlatformName) -> Vec<String> {
    let platform = platform_of(name);
    let mut names = vec![platform.variable("BOT_TOKEN")];
    if name == PlatformName::Slack {
        names.push(platform.variable("APP_TOKEN"));
    }
    names
}

/// A platform of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantPlatform {
    /// Its name.
    platform: PlatformName,
    /// Whether it is turned on: it has a token and is not switched off.
    enabled: bool,
    /// The variable that holds its token.
    token_env: Option<String>,
    /// The end of its token, if that is a variable of the tenant.
    token_last4: Option<String>,
    /// Slack: whether there is an app token, with which messages are received.
    has_app_token: bool,
    /// Who may use the bot, by the platform's ids; `*` is everybody.
    allow_from: Vec<String>,
    /// Who may use it in groups only.
    group_allow_from: Vec<String>,
    /// Groups in which everybody may use it.
    group_allowed_chats: Vec<String>,
    /// Discord: roles that may use it.
    allowed_roles: Vec<String>,
    /// Whether everybody may use it.
    allow_all_users: bool,
    /// What a stranger who writes to it gets.
    unauthorized_dm: StrangerReply,
    /// Where messages go that name no chat.
    home_channel: Option<String>,
    /// Its bots, as the tenant's agent says; empty while the agent does not run.
    bots: Vec<BotReport>,
}

/// The platforms of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TenantPlatforms {
    platforms: Vec<TenantPlatform>,
}

/// A platform of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlatformRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The platform.
    platform: PlatformName,
}

/// A platform as it is to be. Tokens that are absent stay; everything else that is absent goes back to its default.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutPlatform {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The platform.
    platform: PlatformName,
    /// The bot's token; it is stored as a variable and never shown again. Needs `env:write`.
    token: Option<String>,
    /// Slack: the app's token, which begins with `xapp-`. Needs `env:write`.
    app_token: Option<String>,
    /// A variable of the tenant that holds the bot's token, instead of `token`.
    token_env: Option<String>,
    /// Who may use the bot, by the platform's ids; `*` is everybody.
    allow_from: Option<Vec<String>>,
    /// Who may use it in groups only.
    group_allow_from: Option<Vec<String>>,
    /// Groups in which everybody may use it.
    group_allowed_chats: Option<Vec<String>>,
    /// Discord: roles that may use it.
    allowed_roles: Option<Vec<String>>,
    /// Whether everybody may use it.
    allow_all_users: Option<bool>,
    /// What a stranger who writes to it gets: `pair`, a code that you approve, or `ignore`.
    unauthorized_dm: Option<StrangerReply>,
    /// Where messages go that name no chat: the chat's id.
    home_channel: Option<String>,
    /// Whether it is turned on, if it has a token.
    enabled: Option<bool>,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let platforms = describe(&call, PlatformName::ALL).await?;
    Reply::json(&TenantPlatforms { platforms })
}

pub(crate) async fn get(call: Call, input: PlatformRef) -> Result<Reply, Problem> {
    reply_with(&call, input.platform).await
}

async fn reply_with(call: &Call, platform: PlatformName) -> Result<Reply, Problem> {
    let mut found = describe(call, &[platform]).await?;
    match found.pop() {
        Some(found) => Reply::json(&found),
        None => Err(Problem::internal(&"a platform is missing")),
    }
}

/// Platforms as the tenant's settings and variables have them, and their bots.
async fn describe(call: &Call, names: &[PlatformName]) -> Result<Vec<TenantPlatform>, Problem> {
    let record = call.tenant()?;
    let settings = health::read_settings(call).await?;
    let variables = call.hub.state().env(&record.id).await?;
    let bots = health::ask_bots(call).await;
    let shown = names.iter().map(|name| {
        let platform = platform_of(*name);
        let own: &PlatformSettings = settings.gateway.platform(platform);
        let document = &settings.document;
        let token_env = own.token.is_some().then(|| {
            keys::token_reference(document, platform)
                .unwrap_or_else(|| platform.variable("BOT_TOKEN"))
        });
        let variable = token_env
            .as_ref()
            .and_then(|wanted| variables.iter().find(|variable| variable.name == *wanted));
        let ids = |list: &hermes_config::IdList| list.iter().map(str::to_owned).collect();
        TenantPlatform {
            platform: *name,
            enabled: own.token.is_some(),
            token_last4: variable.and_then(|variable| variable.last4.clone()),
            token_env,
            has_app_token: own.app_token.is_some(),
            allow_from: ids(&own.access.allowed_users),
            group_allow_from: ids(&own.access.group_allowed_users),
            group_allowed_chats: ids(&own.access.group_allowed_chats),
            allowed_roles: ids(&own.access.allowed_roles),
            allow_all_users: own.access.allow_all,
            unauthorized_dm: match own.access.unauthorized_dm {
                UnauthorizedDm::Pair => StrangerReply::Pair,
                UnauthorizedDm::Ignore => StrangerReply::Ignore,
            },
            home_channel: own.home_channel.as_ref().map(|home| home.chat_id.clone()),
            bots: health::bots_of(&bots, platform),
        }
    });
    Ok(shown.collect())
}

pub(crate) async fn put(call: Call, input: PutPlatform) -> Result<Reply, Problem> {
    let name = input.platform;
    let platform = platform_of(name);
    let record = call.tenant()?.clone();
    let variables = own_variables(&call, &record).await?;
    check_put(&input, &variables)?;
    let wanted = own_keys(&input);
    let default_variable = platform.variable("BOT_TOKEN");
    let mut secrets = BTreeMap::new();
    let tokens = [("BOT_TOKEN", input.token), ("APP_TOKEN", input.app_token)];
    for (what, token) in tokens {
        if let Some(token) = token {
            secrets.insert(platform.variable(what), token);
        }
    }
    // Checked before anything is changed.
    let secrets = encrypt_variables(&call.hub, &record.uid, secrets)?;
    let token_env = input.token_env;
    let has_token = secrets
        .iter()
        .any(|variable| variable.name == default_variable);
    change_config(&call, move |file| {
        for (key, value) in &wanted {
            set_key(file, platform, key, value);
        }
        match token_env {
            Some(variable) if variable != default_variable => {
                let reference = json!(format!("${{{variable}}}"));
                set_key(file, platform, &PlatformKey::TOKEN, &reference);
            }
            // The variable is the only place of the token.
            _ if has_token => set_key(file, platform, &PlatformKey::TOKEN, &Value::Null),
            _ => {}
        }
        Ok(())
    })
    .await?;
    let change = TenantChange {
        env: secrets,
        ..TenantChange::default()
    };
    change_variables(&call, change).await?;
    reply_with(&call, name).await
}

pub(crate) async fn delete(call: Call, input: PlatformRef) -> Result<Reply, Problem> {
    let platform = platform_of(input.platform);
    change_config(&call, move |file| {
        unset_everywhere(file, platform);
        Ok(())
    })
    .await?;
    let change = TenantChange {
        unset_env: token_variables(input.platform),
        ..TenantChange::default()
    };
    change_variables(&call, change).await?;
    Ok(Reply::empty())
}

/// Stores changed tokens. The agent is restarted with them, or started, or may sleep from now on.
async fn change_variables(call: &Call, mut change: TenantChange) -> Result<(), Problem> {
    let record = call.tenant()?;
    if !change.env.is_empty() || !change.unset_env.is_empty() {
        let effects = ChangeEffects::from_change(&change);
        change.propagation = call.hub.required_propagation(&record.id, effects);
        // The change of the file has used up the idempotency key.
        let mut entry = call.entry.clone();
        entry.idempotency = None;
        call.hub
            .state()
            .update_tenant(&record.id, change, None, entry)
            .await?;
    }
    call.hub.settings_changed(&record.id);
    Ok(())
}

/// Whether a platform could be put so, where the tenant has these variables.
pub(crate) fn check_put(input: &PutPlatform, variables: &BTreeSet<String>) -> Result<(), Problem> {
    check_input(input)?;
    let platform = platform_of(input.platform);
    for (key, value) in &own_keys(input) {
        let variable = platform.variable(key.variable);
        if !value.is_null() && variables.contains(&variable) {
            let message = format!(
                "the tenant's variable `{variable}` wins over `{}`; unset it first",
                key.member
            );
            return Err(Problem::new(ProblemCode::Unprocessable, message)
                .with_reason("no_effect")
                .with_detail(key.member, format!("`{variable}` is set")));
        }
    }
    match &input.token_env {
        Some(variable) => {
            check_token_variable(variable, &platform.variable("BOT_TOKEN"), variables)
        }
        None => Ok(()),
    }
}

fn check_input(input: &PutPlatform) -> Result<(), Problem> {
    let refuse = |member: &'static str, message: &str| {
        Err(Problem::invalid(message).with_detail(member, "not possible here"))
    };
    if input.token.is_some() && input.token_env.is_some() {
        return refuse("tokenEnv", "give `token` or `tokenEnv`, not both");
    }
    if input.app_token.is_some() && input.platform != PlatformName::Slack {
        return refuse("appToken", "only Slack has an `appToken`");
    }
    if input.allowed_roles.is_some() && input.platform != PlatformName::Discord {
        return refuse("allowedRoles", "only Discord has roles");
    }
    for (member, token) in [("token", &input.token), ("appToken", &input.app_token)] {
        let is_wrong =
            |token: &String| token.trim().is_empty() || token.contains(char::is_whitespace);
        if token.as_ref().is_some_and(is_wrong) {
            return refuse(member, "a token is not empty and has no spaces");
        }
    }
    let lists = [
        ("allowFrom", &input.allow_from),
        ("groupAllowFrom", &input.group_allow_from),
        ("groupAllowedChats", &input.group_allowed_chats),
        ("allowedRoles", &input.allowed_roles),
    ];
    for (member, list) in lists {
        let is_wrong = |id: &String| {
            id.trim().is_empty()
                || id.len() > 128
                || id.contains([',', '$'])
                || id.contains(char::is_control)
        };
        let ids = list.as_deref().unwrap_or_default();
        if ids.len() > 1000 || ids.iter().any(is_wrong) {
            return refuse(
                member,
                "ids have 1 to 128 characters and no comma, 1000 at most",
            );
        }
    }
    Ok(())
}

fn check_token_variable(
    variable: &str,
    default_variable: &str,
    variables: &BTreeSet<String>,
) -> Result<(), Problem> {
    let refuse = |message: String| {
        Err(Problem::new(ProblemCode::Unprocessable, message)
            .with_reason("token_env")
            .with_detail("tokenEnv", "cannot be used"))
    };
    if !variables.contains(variable) {
        let shown: String = variable.chars().take(128).collect();
        return refuse(format!(
            "the tenant has no variable `{shown}`; set it first with `env`"
        ));
    }
    if variable != default_variable && variables.contains(default_variable) {
        return refuse(format!(
            "the tenant's variable `{default_variable}` wins over `tokenEnv`; unset it first"
        ));
    }
    Ok(())
}
