//! `hermes pairing …`: who may write to the bots, by a code.

use hermes_config::{Platform, Settings};
use hermes_gateway::{
    access::{PairingError, PairingStore},
    platform::Account,
};
use hermes_store::local_iso;
use serde_json::{Value, json};

use crate::{
    cli::{PairingApproveArgs, PairingCommand, PairingRevokeArgs},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone},
};

pub(super) fn run(context: &Context, command: &PairingCommand) -> Result<(), Failure> {
    match command {
        PairingCommand::List => {
            list(context);
            Ok(())
        }
        PairingCommand::Approve(args) => approve(context, args),
        PairingCommand::Revoke(args) => revoke(context, args),
        PairingCommand::ClearPending => clear_pending(context),
    }
}

fn list(context: &Context) {
    let store = PairingStore::new(&context.home);
    let (pending, approved) = (store.list_pending(), store.list_approved());
    let output = context.output;
    if pending.is_empty() && approved.is_empty() {
        output.note(
            "Nobody waits, and nobody was let in. A stranger who writes to a bot gets a code.",
        );
    } else {
        let mut table = Table::new(&["PLATFORM", "USER", "NAME", "STATE"]);
        for waiting in &pending {
            let minutes = (waiting.expires_in / 60.0).ceil();
            table.row([
                (waiting.account.clone(), Tone::Strong),
                (waiting.user_id.clone(), Tone::Plain),
                (waiting.user_name.clone(), Tone::Plain),
                (format!("waits, {minutes} min left"), Tone::Plain),
            ]);
        }
        for user in &approved {
            let since = user.approved_at.map(local_iso).unwrap_or_default();
            let since = since.get(..16).unwrap_or_default().replace('T', " ");
            table.row([
                (user.account.clone(), Tone::Strong),
                (user.user_id.clone(), Tone::Plain),
                (user.user_name.clone(), Tone::Plain),
                (
                    format!("approved {since}").trim_end().to_owned(),
                    Tone::Good,
                ),
            ]);
        }
        output.table(&table);
    }
    let pending = pending.iter().map(|waiting| {
        json!({
            "platform": waiting.account,
            "user_id": waiting.user_id,
            "user_name": waiting.user_name,
            "created_at": waiting.created_at,
            "expires_in": waiting.expires_in,
        })
    });
    let approved = approved.iter().map(|user| {
        json!({
            "platform": user.account,
            "user_id": user.user_id,
            "user_name": user.user_name,
            "approved_at": user.approved_at,
        })
    });
    output.json(json!({
        "pending": pending.collect::<Vec<Value>>(),
        "approved": approved.collect::<Vec<Value>>(),
    }));
}

fn approve(context: &Context, args: &PairingApproveArgs) -> Result<(), Failure> {
    let account = parse_account(context, &args.platform)?;
    let store = PairingStore::new(&context.home);
    let user = store
        .approve(&account.label(), &args.code)
        .map_err(|error| pairing_failure(&error))?;
    let name = match user.user_name.as_str() {
        "" => format!("`{}`", user.user_id),
        name => format!("{name} (`{}`)", user.user_id),
    };
    context
        .output
        .note(format!("{name} may use the bot on {account} from now on."));
    context.output.json(json!({
        "platform": user.account,
        "user_id": user.user_id,
        "user_name": user.user_name,
    }));
    Ok(())
}

fn revoke(context: &Context, args: &PairingRevokeArgs) -> Result<(), Failure> {
    let account = parse_account(context, &args.platform)?;
    let store = PairingStore::new(&context.home);
    let was_there = store
        .revoke(&account.label(), &args.user)
        .map_err(|error| pairing_failure(&error))?;
    if !was_there {
        let message = format!("`{}` was not paired on {account}", args.user);
        return Err(Failure::new(FailureKind::NotFound, message)
            .hint("`hermes pairing list` lists those who were"));
    }
    if let Some(reason) = find_other_grant(context, &account, &args.user) {
        context
            .output
            .warning(format!("`{}` may still use the bot: {reason}", args.user));
    }
    context.output.note(format!(
        "`{}` is not paired on {account} any more.",
        args.user
    ));
    context
        .output
        .json(json!({"platform": account.label(), "revoked": args.user}));
    Ok(())
}

/// The setting that lets somebody in who is not paired.
fn find_other_grant(context: &Context, account: &Account, user: &str) -> Option<String> {
    let gateway = Settings::load(&context.home).ok()?.gateway;
    let access = &gateway.account(account.platform, &account.name)?.access;
    let variable = |what: &str| account.variable(what);
    if access.allow_all {
        Some(format!("`{}` is set", variable("ALLOW_ALL_USERS")))
    } else if access.allowed_users.includes(user) {
        Some(format!("`{}` has them", variable("ALLOWED_USERS")))
    } else if gateway.allowed_users.includes(user) {
        Some("`GATEWAY_ALLOWED_USERS` has them".to_owned())
    } else if gateway.allow_all_users {
        Some("`GATEWAY_ALLOW_ALL_USERS` is set".to_owned())
    } else {
        None
    }
}

fn clear_pending(context: &Context) -> Result<(), Failure> {
    let store = PairingStore::new(&context.home);
    // A command that finds nothing to do creates no home.
    let count = if store.list_pending().is_empty() {
        0
    } else {
        store
            .clear_pending()
            .map_err(|error| pairing_failure(&error))?
    };
    context.output.note(match count {
        0 => "Nobody waits.".to_owned(),
        1 => "Forgot one code.".to_owned(),
        count => format!("Forgot {count} codes."),
    });
    context.output.json(json!({"cleared": count}));
    Ok(())
}

fn parse_account(context: &Context, typed: &str) -> Result<Account, Failure> {
    let typed = typed.trim().to_lowercase();
    let account = Account::from_label(&typed).ok_or_else(|| {
        let names = Platform::ALL.map(|platform| platform.name().to_owned());
        Failure::usage(format!("`{typed}` is not a platform")).suggest_name(
            &typed,
            "platforms",
            &names,
        )
    })?;
    // A code can be approved although the account was removed since; a slip is more likely.
    let settings = Settings::load(&context.home).ok();
    if let Some(settings) = settings
        && !account.name.is_empty()
        && settings
            .gateway
            .account(account.platform, &account.name)
            .is_none()
    {
        let message = format!(
            "there is no account `{}` of {}",
            account.name, account.platform
        );
        return Err(Failure::new(FailureKind::NotFound, message).hint(format!(
            "accounts are under `{}.accounts`",
            account.platform.name()
        )));
    }
    Ok(account)
}

fn pairing_failure(error: &PairingError) -> Failure {
    match error {
        PairingError::UnknownCode => Failure::new(FailureKind::NotFound, error.to_string())
            .hint("whoever asked gets a new code by writing to the bot again, ten minutes after the last one"),
        PairingError::LockedOut { .. } => Failure::new(FailureKind::Denied, error.to_string()),
        PairingError::Storage { .. } | PairingError::Random(_) => {
            Failure::failed(error.to_string())
        }
    }
}
