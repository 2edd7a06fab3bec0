//! `hermes gateway setup`: from nothing to a bot that answers. Each token is checked with its platform before it is
//! written to `.env`.

mod first_message;
mod steps;

use std::{io::Read as _, time::Duration};

use hermes_config::{Platform, Secret, mask, private_file::restrict_to_owner, write_variable};
use hermes_gateway::{
    instance,
    platform::Account,
    send::{AccountCheck, CheckedAccount, discord_invite_url},
};
use serde_json::{Value, json};

use self::first_message::FirstMessage;
use crate::{
    cli::GatewaySetupArgs,
    context::Context,
    failure::Failure,
    question::{DefaultAnswer, Questions},
};

const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a token that was refused may be given again.
const MAX_ATTEMPTS: usize = 3;
const NONINTERACTIVE_HINT: &str = "without a terminal: `hermes gateway setup --platform telegram --token-stdin --allow ID < token`";

/// The tokens of one account.
struct BotTokens {
    bot: Secret<String>,
    /// Slack's second token.
    app: Option<Secret<String>>,
}

pub(super) fn run(context: &Context, args: &GatewaySetupArgs) -> Result<(), Failure> {
    if args.manifest {
        return print_manifest(context, args);
    }
    let questions = Questions::new(context.output.is_json() || args.token_stdin);
    let platform = choose_platform(questions, args)?;
    let name = args.account.clone().unwrap_or_default();
    let account = Account { platform, name };
    check_account_name(&account)?;
    let (tokens, checked) = if args.token_stdin {
        let tokens = read_tokens(platform)?;
        let checked = if args.no_check {
            None
        } else {
            Some(check_tokens(context, &account, &tokens)?)
        };
        (tokens, checked)
    } else {
        let (tokens, checked) = ask_tokens(context, questions, &account)?;
        (tokens, Some(checked))
    };
    check_unused(context, &account, &tokens)?;
    context.home.create()?;
    write_tokens(context, &account, &tokens)?;
    let allowed = choose_allowed(context, questions, args, &account)?;
    if let Some(home) = &args.home_channel {
        write_variable(&context.home, &account.variable("HOME_CHANNEL"), home)?;
    }
    report(context, &account, checked.as_ref())?;
    let may_wait = args.wait || questions.can_ask();
    // Who writes while the gateway starts has written, too.
    let first_message = may_wait.then(|| FirstMessage::from_now(context, &account));
    let first_message = first_message.transpose()?;
    let is_started = offer_start(context, questions)?;
    let wants_message = args.wait
        || questions.can_ask()
            && is_started
            && questions.confirm(
                "Wait here for the first message?",
                DefaultAnswer::Yes,
                NONINTERACTIVE_HINT,
            )?;
    let heard = match first_message.filter(|_| wants_message) {
        Some(first_message) if is_started => Some(first_message.wait(questions)?),
        Some(_) => {
            return Err(
                Failure::failed("no gateway is running, so no message can arrive")
                    .hint("`hermes gateway start` starts one"),
            );
        }
        None => None,
    };
    let problems: Vec<Value> = checked
        .iter()
        .flat_map(|checked| &checked.problems)
        .map(
            |problem| json!({"code": problem.code, "message": problem.message, "fix": problem.fix}),
        )
        .collect();
    context.output.json(json!({
        "account": account.label(),
        "bot": checked.as_ref().map(|checked| checked.name.clone()),
        "bot_id": checked.as_ref().map(|checked| checked.id.clone()),
        "write_to": checked.as_ref().map(|checked| steps::write_to(platform, checked)),
        "problems": problems,
        "allowed": allowed,
        "heard": heard,
    }));
    Ok(())
}

fn print_manifest(context: &Context, args: &GatewaySetupArgs) -> Result<(), Failure> {
    if args.platform.as_deref() != Some(Platform::Slack.name()) {
        return Err(Failure::usage("only Slack apps have a manifest")
            .hint("`hermes gateway setup --platform slack --manifest`"));
    }
    let manifest = steps::slack_manifest();
    context.output.line(format!("{manifest:#}"));
    context.output.json(manifest);
    Ok(())
}

fn choose_platform(questions: Questions, args: &GatewaySetupArgs) -> Result<Platform, Failure> {
    if let Some(name) = &args.platform {
        return Platform::from_name(name)
            .ok_or_else(|| Failure::usage(format!("`{name}` is not a platform")));
    }
    for _ in 0..MAX_ATTEMPTS {
        let answer = questions.text(
            "Which platform: telegram, discord or slack?",
            None,
            NONINTERACTIVE_HINT,
        )?;
        if let Some(platform) = Platform::from_name(&answer.to_lowercase()) {
            return Ok(platform);
        }
    }
    Err(Failure::usage("no platform was chosen"))
}

fn check_account_name(account: &Account) -> Result<(), Failure> {
    let is_letter =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let name = &account.name;
    if name.len() <= 32 && name != "name" && name.chars().all(is_letter) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{}` cannot be the name of an account: lower case letters, digits, `_` and `-`, 32 at most",
        account.name
    )))
}

/// Refuses the bot of another account of this home: two that read one bot's updates take them from each other.
fn check_unused(context: &Context, account: &Account, tokens: &BotTokens) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let mut others = settings.gateway.accounts(account.platform);
    let user = others.find(|(name, settings)| {
        *name != account.name && settings.token.as_ref() == Some(&tokens.bot)
    });
    let Some((name, _)) = user else {
        return Ok(());
    };
    let user = Account {
        platform: account.platform,
        name: name.to_owned(),
    };
    Err(Failure::usage(format!(
        "this is the bot of `{}` of this home",
        user.label()
    ))
    .hint(format!("give `{}` a bot of its own", account.label())))
}

/// The tokens from stdin, a line each.
fn read_tokens(platform: Platform) -> Result<BotTokens, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(bot) = lines.next() else {
        return Err(Failure::usage("stdin has no token"));
    };
    let app = lines.next().filter(|_| platform == Platform::Slack);
    let tokens = BotTokens {
        bot: Secret::new(bot.to_owned()),
        app: app.map(|app| Secret::new(app.to_owned())),
    };
    check_form(platform, &tokens)?;
    Ok(tokens)
}

/// Refuses what is plainly another thing than a token.
fn check_form(platform: Platform, tokens: &BotTokens) -> Result<(), Failure> {
    let bot = tokens.bot.expose();
    let problem = match platform {
        Platform::Telegram if !bot.contains(':') => {
            Some("a Telegram token looks like `123456789:AA…`")
        }
        Platform::Slack if bot.starts_with("xapp-") => {
            Some("this is the app token; the bot token (`xoxb-…`) comes first")
        }
        Platform::Slack if !bot.starts_with("xoxb-") => {
            Some("a Slack bot token looks like `xoxb-…`")
        }
        _ => None,
    };
    let app = tokens.app.as_ref().map(|app| app.expose().as_str());
    let problem = problem.or(match app {
        Some(app) if !app.starts_with("xapp-") => Some("a Slack app token looks like `xapp-…`"),
        _ => None,
    });
    problem.map_or(Ok(()), |problem| Err(Failure::usage(problem)))
}

fn check_tokens(
    context: &Context,
    account: &Account,
    tokens: &BotTokens,
) -> Result<CheckedAccount, Failure> {
    let settings = context.written_settings()?;
    let settings = settings
        .gateway
        .account(account.platform, &account.name)
        .unwrap_or(settings.gateway.platform(account.platform));
    let check = AccountCheck {
        account,
        settings,
        token: &tokens.bot,
        app_token: tokens.app.as_ref(),
        timeout: CHECK_TIMEOUT,
    };
    context.block_on(async {
        check.run().await.map_err(|error| {
            let failure = Failure::failed(error.to_string());
            if error.is_token_problem() {
                failure.hint(steps::where_to_get_it(account.platform))
            } else {
                failure.hint("`--token-stdin --no-check` writes it without asking the platform")
            }
        })
    })
}

/// Explains where the tokens come from, and asks for them until they are accepted.
fn ask_tokens(
    context: &Context,
    questions: Questions,
    account: &Account,
) -> Result<(BotTokens, CheckedAccount), Failure> {
    let output = context.output;
    if questions.can_ask() {
        output.note(steps::get_token(account.platform));
    }
    let mut attempt = 1;
    loop {
        let question = format!("Token of your {} bot (it is not shown)", account.platform);
        let bot = questions.hidden(&question, NONINTERACTIVE_HINT)?;
        let app = if account.platform == Platform::Slack {
            let app = questions.hidden(
                "App token, xapp-… (it is not shown; empty: later)",
                NONINTERACTIVE_HINT,
            )?;
            Some(app).filter(|app| !app.expose().is_empty())
        } else {
            None
        };
        let tokens = BotTokens { bot, app };
        let checked = check_form(account.platform, &tokens)
            .and_then(|()| check_tokens(context, account, &tokens));
        match checked {
            Ok(checked) => return Ok((tokens, checked)),
            Err(failure) if attempt == MAX_ATTEMPTS => return Err(failure),
            Err(failure) => output.failure(&failure),
        }
        attempt += 1;
    }
}

fn write_tokens(context: &Context, account: &Account, tokens: &BotTokens) -> Result<(), Failure> {
    let app = tokens.app.as_ref().map(|app| ("APP_TOKEN", app));
    let written = [("BOT_TOKEN", &tokens.bot)].into_iter().chain(app);
    for (what, token) in written {
        let name = account.variable(what);
        write_variable(&context.home, &name, token.expose())?;
        context.output.note(format!(
            "`{name}` ({}) is kept in `.env`",
            mask(token.expose())
        ));
    }
    protect_tokens(context)
}

/// Nobody else may read the tokens, whoever made the file.
fn protect_tokens(context: &Context) -> Result<(), Failure> {
    restrict_to_owner(&std::fs::File::open(context.home.env_file())?)?;
    Ok(())
}

/// Who may write to the bot. `None` if that stays as it is.
fn choose_allowed(
    context: &Context,
    questions: Questions,
    args: &GatewaySetupArgs,
    account: &Account,
) -> Result<Option<String>, Failure> {
    let given: Vec<&str> = args
        .allow
        .iter()
        .map(|id| id.trim())
        .filter(|id| !id.is_empty())
        .collect();
    let mut list = given.join(",");
    if list.is_empty() && questions.can_ask() {
        context.output.note(steps::who_may_write(account.platform));
        list = questions.text(
            "Ids of the people who may write to it, with commas (empty: by pairing code)",
            Some(""),
            NONINTERACTIVE_HINT,
        )?;
    }
    let list: String = list.split_whitespace().collect();
    if list.is_empty() {
        return Ok(None);
    }
    let name = account.variable("ALLOWED_USERS");
    write_variable(&context.home, &name, &list)?;
    context
        .output
        .note(format!("`{name}` ({list}) is kept in `.env`"));
    Ok(Some(list))
}

fn report(
    context: &Context,
    account: &Account,
    checked: Option<&CheckedAccount>,
) -> Result<(), Failure> {
    let output = context.output;
    let Some(checked) = checked else {
        output.line(format!(
            "{} is set up; its token was not checked.",
            account.label()
        ));
        return Ok(());
    };
    let place = checked.workspace.as_deref();
    let place = place.map_or_else(String::new, |name| format!(" in {name}"));
    output.line(format!(
        "{} is set up: the bot is {}{place}.",
        account.label(),
        checked.name
    ));
    for problem in &checked.problems {
        output.warning(format!("{}\n    {}", problem.message, problem.fix));
    }
    if account.platform == Platform::Discord {
        output.line(format!(
            "Invite it into your server: {}",
            discord_invite_url(&checked.id)
        ));
    }
    output.line(format!(
        "Write to your bot: {}",
        steps::write_to(account.platform, checked)
    ));
    let settings = context.written_settings()?;
    let settings = settings.gateway.account(account.platform, &account.name);
    if settings.is_some_and(|it| !it.access.has_allow_list() && !it.access.allow_all) {
        output.line(format!(
            "Whoever writes it a direct message first gets a code; `hermes pairing approve {} CODE` lets them in.",
            account.label()
        ));
    }
    Ok(())
}

/// Whether a gateway runs now; a person is asked whether to start one.
fn offer_start(context: &Context, questions: Questions) -> Result<bool, Failure> {
    if instance::find_running(&context.home)?.is_some() {
        context
            .output
            .line("The running gateway reads it by itself; `hermes gateway status` shows it.");
        return Ok(true);
    }
    if !questions.can_ask() {
        context.output.line(
            "Next: `hermes gateway start`, or `hermes gateway install` to run it as a service.",
        );
        return Ok(false);
    }
    let question = "No gateway is running. Start it now, in the background?";
    if !questions.confirm(question, DefaultAnswer::Yes, NONINTERACTIVE_HINT)? {
        context.output.line(
            "Next: `hermes gateway start`, or `hermes gateway install` to run it as a service.",
        );
        return Ok(false);
    }
    super::service::start(context)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_account_fits_its_variables() {
        let mut account = Account::first(Platform::Slack);
        account.name = "work".into();
        assert!(check_account_name(&account).is_ok());
        account.name = "My Bot".into();
        assert!(check_account_name(&account).is_err());
    }

    #[test]
    fn another_thing_than_a_token_is_named() {
        let said = |platform, bot: &str, app: Option<&str>| {
            let tokens = BotTokens {
                bot: Secret::new(bot.into()),
                app: app.map(|app| Secret::new(app.into())),
            };
            check_form(platform, &tokens)
                .err()
                .map(|failure| failure.message)
        };
        assert_eq!(said(Platform::Telegram, "1:AA", None), None);
        assert_eq!(said(Platform::Slack, "xoxb-1", Some("xapp-1")), None);
        assert!(said(Platform::Telegram, "hello", None).is_some());
        assert!(said(Platform::Slack, "xapp-1", None).is_some_and(|it| it.contains("app token")));
        assert!(said(Platform::Slack, "xoxb-1", Some("xoxb-2")).is_some());
    }
}
