//! `hermes tenant platform`, `pairing` and `limits`: a tenant's bots, who may write to them, and what the tenant may use.

use serde_json::{Map, Value, json};

use super::tenant_call;
use crate::{
    cli::{
        TenantLimitArgs, TenantPairingArgs, TenantPairingCommand, TenantPlatformArgs,
        TenantPlatformCommand, TenantPlatformSetArgs,
    },
    commands::hub::{
        client::{Column, HubClient},
        tenant::env::read_secret,
    },
    failure::Failure,
    output::printable,
};

const PLATFORMS: &[Column] = &[
    ("PLATFORM", "/platform"),
    ("ON", "/enabled"),
    ("TOKEN", "/tokenEnv"),
    ("ALLOWED", "/allowFrom"),
    ("STATE", "/bots/0/state"),
    ("ERROR", "/bots/0/error"),
];
const WAITING: &[Column] = &[
    ("BOT", "/account"),
    ("USER", "/userId"),
    ("NAME", "/userName"),
    ("CODE VALID UNTIL", "/expiresAt"),
];
const LET_IN: &[Column] = &[
    ("BOT", "/account"),
    ("USER", "/userId"),
    ("NAME", "/userName"),
    ("SINCE", "/approvedAt"),
];

pub(super) fn run_platform(hub: &HubClient<'_>, args: TenantPlatformArgs) -> Result<(), Failure> {
    let tenant = &args.tenant;
    match args.command {
        TenantPlatformCommand::List => {
            let answer = hub.call(&tenant_call("list_platforms", tenant))?;
            hub.show_list(&answer, "platforms", PLATFORMS, "There are no platforms.");
        }
        TenantPlatformCommand::Get { platform } => {
            let call = tenant_call("get_platform", tenant).with("platform", platform);
            let answer = hub.call(&call)?;
            hub.show_members(&answer.value);
        }
        TenantPlatformCommand::Set(args) => set_platform(hub, tenant, *args)?,
        TenantPlatformCommand::Remove { platform, sure } => {
            let question = format!("Remove {platform} from `{tenant}` with its token?");
            hub.confirm(sure.yes, &question)?;
            let call = tenant_call("delete_platform", tenant).with("platform", platform.as_str());
            hub.call(&call)?;
            hub.output()
                .note(format!("Removed {platform} from `{tenant}`."));
        }
    }
    Ok(())
}

fn set_platform(
    hub: &HubClient<'_>,
    tenant: &str,
    args: TenantPlatformSetArgs,
) -> Result<(), Failure> {
    let platform = args.platform;
    let mut call = tenant_call("put_platform", tenant)
        .with("platform", platform.as_str())
        .with_optional("token_env", args.token_env)
        .with_list("allow_from", args.allow_from)
        .with_list("group_allow_from", args.group_allow_from)
        .with_list("group_allowed_chats", args.group_allowed_chats)
        .with_list("allowed_roles", args.allowed_roles)
        .with_flag("allow_all_users", args.allow_all_users)
        .with_optional("unauthorized_dm", args.strangers)
        .with_optional("home_channel", args.home_channel);
    if args.off {
        call = call.with("enabled", false);
    }
    if args.token {
        let given = read_secret(&format!("Token of {platform}"))?;
        let mut lines = given.expose().lines().map(str::trim);
        call = call.with("token", lines.next().unwrap_or_default());
        call = call.with_optional("app_token", lines.next());
    }
    let answer = hub.call(&call)?;
    let state = if answer.value["enabled"] == true {
        "on"
    } else {
        "off"
    };
    hub.output()
        .note(format!("Set up {platform} for `{tenant}`; it is {state}."));
    Ok(())
}

pub(super) fn run_pairing(hub: &HubClient<'_>, args: TenantPairingArgs) -> Result<(), Failure> {
    let tenant = &args.tenant;
    match args.command {
        TenantPairingCommand::List => {
            let answer = hub.call(&tenant_call("list_pairing", tenant))?;
            hub.show_list(&answer, "pending", WAITING, "Nobody waits.");
            hub.show_list(&answer, "approved", LET_IN, "Nobody was let in.");
        }
        TenantPairingCommand::Approve { account, code } => {
            let call = tenant_call("approve_pairing", tenant)
                .with("account", account.as_str())
                .with("code", code);
            let answer = hub.call(&call)?;
            let user = printable(answer.text("/userId"));
            hub.output().note(format!(
                "`{user}` may use the bot on {account} from now on."
            ));
        }
        TenantPairingCommand::Revoke {
            account,
            user,
            sure,
        } => {
            hub.confirm(sure.yes, &format!("Shut out `{user}` from {account}?"))?;
            let call = tenant_call("revoke_pairing", tenant)
                .with("account", account.as_str())
                .with("user_id", user.as_str());
            hub.call(&call)?;
            hub.output()
                .note(format!("`{user}` is not paired on {account} any more."));
        }
    }
    Ok(())
}

pub(super) fn show_limits(hub: &HubClient<'_>, tenant: &str) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call("get_limits", tenant))?;
    hub.show_members(&answer.value);
    Ok(())
}

/// The limits that options name, as the members of a change.
pub(super) fn limit_members(args: &TenantLimitArgs) -> Result<Map<String, Value>, Failure> {
    let mut members = Map::new();
    let options = [
        ("runs_per_day", "--runs-per-day", &args.runs_per_day),
        ("tokens_per_day", "--tokens-per-day", &args.tokens_per_day),
    ];
    for (member, option, given) in options {
        let value = match given.as_deref() {
            None => continue,
            Some("none") => Value::Null,
            Some(text) => {
                let number: u64 = text.parse().map_err(|_| {
                    Failure::usage(format!("`{option}` takes a number, or `none` for no limit"))
                })?;
                json!(number)
            }
        };
        members.insert(member.to_owned(), value);
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        let members = |runs: &str| {
            let args = TenantLimitArgs {
                runs_per_day: Some(runs.into()),
                tokens_per_day: None,
            };
            limit_members(&args).map(Value::Object)
        };
        assert_eq!(members("5").unwrap(), json!({"runs_per_day": 5}));
        assert_eq!(members("none").unwrap(), json!({"runs_per_day": null}));
        assert!(members("many").is_err());
        assert!(
            limit_members(&TenantLimitArgs::default())
                .unwrap()
                .is_empty()
        );
    }
}
