//! The way to the platforms: TLS with an authority of one's own, proxies, and what is refused.

use std::{net::SocketAddr, process::Command};

use hermes_testkit::{
    ConnectProxy, TlsFront,
    platform::{DiscordServer, SlackPost, SlackServer},
};

use super::*;

const DISCORD_TOKEN: &str = "discord-token-of-the-tests";
const SLACK_TOKEN: &str = "xoxb-of-the-tests";
const SLACK_APP_TOKEN: &str = "xapp-of-the-tests";
const PLATFORMS: [&str; 3] = ["telegram", "discord", "slack"];

/// All three platforms, and somebody on each who may use the bot.
struct ThreePlatforms {
    telegram: TelegramServer,
    discord: DiscordServer,
    slack: SlackServer,
    bob: String,
}

impl ThreePlatforms {
    fn start() -> Self {
        let telegram = TelegramServer::start(TOKEN);
        telegram.add_user(ADA, "Ada");
        let discord = DiscordServer::start(DISCORD_TOKEN);
        let bob = discord.add_user("bob");
        let slack = SlackServer::start(SLACK_TOKEN, SLACK_APP_TOKEN);
        slack.add_user("U1", "carol");
        Self {
            telegram,
            discord,
            slack,
            bob,
        }
    }

    /// In the order of [`PLATFORMS`].
    fn addresses(&self) -> [SocketAddr; 3] {
        [
            self.telegram.address(),
            self.discord.address(),
            self.slack.address(),
        ]
    }

    /// A gateway with a bot on each. The platforms are at these origins.
    fn command(&self, place: &GatewayHome, origins: [&str; 3]) -> Command {
        let mut command = place.home.command(&["gateway", "run"]);
        let [telegram, discord, slack] = origins;
        command
            .env("API_SERVER_KEY", KEY)
            .env("TELEGRAM_BOT_TOKEN", TOKEN)
            .env("TELEGRAM_BASE_URL", telegram)
            .env("TELEGRAM_ALLOWED_USERS", ADA.to_string())
            .env("DISCORD_BOT_TOKEN", DISCORD_TOKEN)
            .env("DISCORD_BASE_URL", discord)
            .env("DISCORD_ALLOWED_USERS", &self.bob)
            .env("SLACK_BOT_TOKEN", SLACK_TOKEN)
            .env("SLACK_APP_TOKEN", SLACK_APP_TOKEN)
            .env("SLACK_BASE_URL", slack)
            .env("SLACK_ALLOWED_USERS", "U1");
        command
    }

    /// Says something on each, and waits until it is answered.
    fn converse(&self, gateway: &GatewayProcess) {
        for platform in PLATFORMS {
            wait_until(platform, || {
                gateway.platform(platform)["state"] == "connected"
            });
        }
        self.telegram.say(ADA, "hello telegram");
        let dm = self.discord.open_dm(&self.bob);
        self.discord.say(&dm, &self.bob, "hello discord");
        let channel = self.slack.direct_channel("U1");
        self.slack
            .write(&SlackPost::new("U1", &channel, "hello slack"));
        wait_until("an answer on Telegram", || {
            !self.telegram.answers(ADA).is_empty()
        });
        wait_until("an answer on Discord", || {
            !self.discord.answers(&dm).is_empty()
        });
        wait_until("an answer on Slack", || {
            !self.slack.bot_messages(&channel).is_empty()
        });
    }
}

fn start(command: Command) -> GatewayProcess {
    let mut process = BackgroundProcess::start(command);
    let line = process.wait_for("HTTP API on http://");
    let address = line.split("http://").nth(1).unwrap().trim().to_owned();
    GatewayProcess { process, address }
}

/// Waits until a platform has a problem, and returns what is said about it.
fn problem(gateway: &GatewayProcess, platform: &str) -> String {
    let state = || gateway.platform(platform);
    wait_until("a problem", || state()["error_message"].is_string());
    state().to_string()
}

/// TLS before each platform, for these names.
fn fronts(platforms: &ThreePlatforms, names: [&[&str]; 3]) -> Vec<TlsFront> {
    let addresses = platforms.addresses().into_iter();
    addresses
        .zip(names)
        .map(|(address, names)| TlsFront::start(address, names))
        .collect()
}

/// A file with the authorities of these ports.
fn authorities(place: &GatewayHome, fronts: &[TlsFront]) -> std::path::PathBuf {
    let file = place.home.beside("authorities.pem");
    let bundle: String = fronts.iter().map(TlsFront::authority).collect();
    std::fs::write(&file, bundle).unwrap();
    file
}

fn origin(front: &TlsFront) -> String {
    format!("https://localhost:{}", front.address().port())
}

#[test]
fn over_tls_an_authority_that_the_system_is_told_of_is_trusted_for_requests_and_sockets() {
    let place = GatewayHome::new(ModelScript::echo());
    let platforms = ThreePlatforms::start();
    let fronts = fronts(&platforms, [&["localhost"]; 3]);
    let [telegram, discord, slack] = [0, 1, 2].map(|index| origin(&fronts[index]));
    platforms.discord.announce(&discord);
    platforms.slack.announce(&slack);
    let mut command = platforms.command(&place, [&telegram, &discord, &slack]);
    command.env("SSL_CERT_FILE", authorities(&place, &fronts));
    let gateway = start(command);
    platforms.converse(&gateway);
}

#[test]
fn over_tls_a_certificate_of_somebody_else_is_refused_and_explained() {
    let place = GatewayHome::new(ModelScript::echo());
    let platforms = ThreePlatforms::start();
    // Telegram's has the wrong name, Discord's and Slack's are of an unknown authority.
    let fronts = fronts(
        &platforms,
        [&["elsewhere.test"], &["localhost"], &["localhost"]],
    );
    let [telegram, discord, slack] = [0, 1, 2].map(|index| origin(&fronts[index]));
    let mut command = platforms.command(&place, [&telegram, &discord, &slack]);
    command.env("SSL_CERT_FILE", authorities(&place, &fronts[..1]));
    let gateway = start(command);
    let told = problem(&gateway, "telegram");
    assert!(told.contains("is for another name"), "{told}");
    for platform in ["discord", "slack"] {
        let told = problem(&gateway, platform);
        assert!(told.contains("SSL_CERT_FILE"), "{platform}: {told}");
    }
    assert!(platforms.telegram.requests().is_empty());
    assert!(platforms.discord.requests().is_empty());
    assert!(platforms.slack.requests().is_empty());
}

#[test]
fn over_tls_a_socket_whose_certificate_is_not_trusted_is_refused_and_explained() {
    let place = GatewayHome::new(ModelScript::echo());
    let platforms = ThreePlatforms::start();
    let trusted = fronts(&platforms, [&["localhost"]; 3]);
    let untrusted = fronts(&platforms, [&["localhost"]; 3]);
    let [telegram, discord, slack] = [0, 1, 2].map(|index| origin(&trusted[index]));
    platforms.discord.announce(&origin(&untrusted[1]));
    platforms.slack.announce(&origin(&untrusted[2]));
    let mut command = platforms.command(&place, [&telegram, &discord, &slack]);
    command.env("SSL_CERT_FILE", authorities(&place, &trusted));
    let gateway = start(command);
    for platform in ["discord", "slack"] {
        let told = problem(&gateway, platform);
        assert!(told.contains("SSL_CERT_FILE"), "{platform}: {told}");
        assert!(
            !told.contains("ticket"),
            "the address of a socket is a secret: {told}"
        );
    }
    assert_eq!(platforms.discord.identifies(), 0);
}

/// Names that only a proxy can find.
const NAMES: [&str; 3] = ["telegram.test", "discord.test", "slack.test"];
/// Those of their sockets.
const SOCKETS: [&str; 2] = ["gateway.discord.test", "wss.slack.test"];

/// All platforms behind names of their own.
struct NamedPlatforms {
    place: GatewayHome,
    platforms: ThreePlatforms,
    fronts: Vec<TlsFront>,
}

impl NamedPlatforms {
    fn start() -> Self {
        let platforms = ThreePlatforms::start();
        let fronts = fronts(
            &platforms,
            [
                &NAMES[..1],
                &[NAMES[1], SOCKETS[0]],
                &[NAMES[2], SOCKETS[1]],
            ],
        );
        platforms
            .discord
            .announce(&format!("https://{}", SOCKETS[0]));
        platforms.slack.announce(&format!("https://{}", SOCKETS[1]));
        Self {
            place: GatewayHome::new(ModelScript::echo()),
            platforms,
            fronts,
        }
    }

    fn proxy(&self) -> ConnectProxy {
        let [telegram, discord, slack] = [0, 1, 2].map(|index| self.fronts[index].address());
        ConnectProxy::start([
            (NAMES[0], telegram),
            (NAMES[1], discord),
            (SOCKETS[0], discord),
            (NAMES[2], slack),
            (SOCKETS[1], slack),
        ])
    }

    fn command(&self) -> Command {
        let origins = NAMES.map(|name| format!("https://{name}"));
        let [telegram, discord, slack] = &origins;
        let mut command = self
            .platforms
            .command(&self.place, [telegram, discord, slack]);
        command.env("SSL_CERT_FILE", authorities(&self.place, &self.fronts));
        command
    }
}

#[test]
fn through_a_proxy_all_platforms_are_reached_with_their_sockets() {
    let named = NamedPlatforms::start();
    let proxy = named.proxy();
    // In the home's own file it counts as much as in the environment.
    let env = format!("HTTPS_PROXY={}\n", proxy.url());
    std::fs::write(named.place.home.path().join(".env"), env).unwrap();
    let gateway = start(named.command());
    named.platforms.converse(&gateway);
    let hosts = proxy.hosts();
    for host in NAMES.iter().chain(&SOCKETS) {
        assert!(hosts.iter().any(|asked| asked == host), "{host}: {hosts:?}");
    }
}

#[test]
fn through_a_proxy_a_socket_whose_certificate_is_not_trusted_is_explained_too() {
    let named = NamedPlatforms::start();
    let untrusted = TlsFront::start(named.platforms.discord.address(), &SOCKETS[..1]);
    let proxy = ConnectProxy::start([
        (NAMES[1], named.fronts[1].address()),
        (SOCKETS[0], untrusted.address()),
    ]);
    let mut command = named.command();
    command.env("DISCORD_PROXY", proxy.url());
    let gateway = start(command);
    let told = problem(&gateway, "discord");
    assert!(told.contains("SSL_CERT_FILE"), "{told}");
    assert_eq!(named.platforms.discord.identifies(), 0);
}

#[test]
fn no_proxy_and_a_proxy_for_discord_alone_are_followed() {
    let named = NamedPlatforms::start();
    let (general, own) = (named.proxy(), named.proxy());
    let mut command = named.command();
    command
        .env("HTTPS_PROXY", general.url())
        .env("NO_PROXY", "localhost, slack.test")
        .env("DISCORD_PROXY", own.url());
    let gateway = start(command);
    for platform in ["telegram", "discord"] {
        wait_until(platform, || {
            gateway.platform(platform)["state"] == "connected"
        });
    }
    // Without a proxy nobody finds it.
    problem(&gateway, "slack");
    assert!(named.platforms.slack.requests().is_empty());
    let (general, own) = (general.hosts(), own.hosts());
    assert!(general.iter().all(|host| host == NAMES[0]), "{general:?}");
    for host in [NAMES[1], SOCKETS[0]] {
        assert!(own.iter().any(|asked| asked == host), "{host}: {own:?}");
    }
    assert!(
        own.iter().all(|host| host.ends_with("discord.test")),
        "{own:?}"
    );
}

#[test]
fn a_proxy_that_is_none_is_told_without_its_password() {
    let platforms = ThreePlatforms::start();
    let place = GatewayHome::new(ModelScript::echo());
    let mut command = platforms.command(&place, NAMES.map(|_| "https://platform.test"));
    command.env("HTTPS_PROXY", "ftp://user:planted-password@proxy.test");
    let gateway = start(command);
    for platform in PLATFORMS {
        let told = problem(&gateway, platform);
        assert!(told.contains("HTTPS_PROXY"), "{told}");
        assert!(!told.contains("planted-password"), "{told}");
    }
}

#[test]
fn plain_http_is_for_this_machine_unless_the_home_says_otherwise() {
    let named = NamedPlatforms::start();
    let [telegram, discord, slack] = named.platforms.addresses();
    named
        .platforms
        .discord
        .announce(&format!("http://{}", SOCKETS[0]));
    named
        .platforms
        .slack
        .announce(&format!("http://{}", SOCKETS[1]));
    let proxy = ConnectProxy::start([
        (NAMES[0], telegram),
        (NAMES[1], discord),
        (SOCKETS[0], discord),
        (NAMES[2], slack),
        (SOCKETS[1], slack),
    ]);
    let origins = NAMES.map(|name| format!("http://{name}"));
    let command = || {
        let [telegram, discord, slack] = &origins;
        let mut command = named
            .platforms
            .command(&named.place, [telegram, discord, slack]);
        command.env("HTTP_PROXY", proxy.url());
        command
    };
    let gateway = start(command());
    for platform in PLATFORMS {
        let told = problem(&gateway, platform);
        assert!(told.contains("extra.allow_http"), "{told}");
        assert_eq!(gateway.platform(platform)["state"], "fatal", "{told}");
    }
    assert!(proxy.hosts().is_empty(), "{:?}", proxy.hosts());
    drop(gateway);

    let config = std::fs::read_to_string(named.place.home.config()).unwrap();
    let allowed =
        PLATFORMS.map(|platform| format!("{platform}: {{extra: {{allow_http: true}}}}\n"));
    let config = format!("{config}{}", allowed.concat());
    named.place.home.write_config(&config);
    let gateway = start(command());
    named.platforms.converse(&gateway);
}
