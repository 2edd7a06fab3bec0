"""A bot on hikari that does what it is told. It runs until its input ends."""

import asyncio
import sys

import hikari

BASE, TOKEN = sys.argv[1:3]
# Tokens are taken apart for the bot's number; the URL is checked nowhere else.
bot = hikari.GatewayBot(
    TOKEN,
    rest_url=BASE,
    banner=None,
    intents=hikari.Intents.GUILDS
    | hikari.Intents.GUILD_MESSAGES
    | hikari.Intents.DM_MESSAGES
    | hikari.Intents.MESSAGE_CONTENT,
)


@bot.listen()
async def started(event: hikari.ShardReadyEvent):
    commands = [
        bot.rest.slash_command_builder("hello", "Says hello").add_option(
            hikari.CommandOption(
                type=hikari.OptionType.STRING, name="whom", description="Whom", is_required=True
            )
        ),
        bot.rest.slash_command_builder("slow", "Thinks first"),
    ]
    await bot.rest.set_application_commands(event.application_id, commands)
    print("ready", event.my_user.id, flush=True)


@bot.listen()
async def interacted(event: hikari.InteractionCreateEvent):
    interaction = event.interaction
    if isinstance(interaction, hikari.ComponentInteraction):
        await interaction.create_initial_response(
            hikari.ResponseType.MESSAGE_UPDATE, "pressed", components=[]
        )
        await interaction.execute("noted", flags=hikari.MessageFlag.EPHEMERAL)
    elif interaction.command_name == "hello":
        await interaction.create_initial_response(
            hikari.ResponseType.MESSAGE_CREATE,
            f"hello {interaction.options[0].value}",
            flags=hikari.MessageFlag.EPHEMERAL,
        )
    else:
        await interaction.create_initial_response(hikari.ResponseType.DEFERRED_MESSAGE_CREATE)
        await interaction.edit_initial_response("thought about it")


@bot.listen()
async def heard(event: hikari.MessageCreateEvent):
    message = event.message
    if message.author.id == bot.get_me().id:
        return
    if message.attachments:
        content = await message.attachments[0].read()
        await bot.rest.create_message(message.channel_id, f"got {content.decode()}")
        return
    text = (message.content or "").replace(f"<@{bot.get_me().id}>", "").strip()
    if text == "ping":
        await message.respond("pong", reply=True)
    elif text == "thread":
        thread = await bot.rest.create_message_thread(message.channel_id, message, "topic")
        await bot.rest.create_message(thread, "in the thread")
    elif text == "edit":
        posted = await message.respond("before")
        await posted.edit("after")
    elif text == "delete":
        posted = await message.respond("soon gone")
        await posted.delete()
    elif text == "button":
        row = bot.rest.build_message_action_row()
        row.add_interactive_button(hikari.ButtonStyle.PRIMARY, "yes", label="Yes")
        await message.respond("press", component=row)
    elif text == "upload":
        await message.respond("a file", attachment=hikari.Bytes(b"content", "a.txt"))
    elif text == "type":
        await bot.rest.trigger_typing(message.channel_id)
        await message.add_reaction("\N{THUMBS UP SIGN}")
    elif text == "history":
        found = [m.content or "" async for m in bot.rest.fetch_messages(message.channel_id).limit(3)]
        await message.respond(" | ".join(found))


async def main():
    await bot.start()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await ended
    await bot.close()


asyncio.run(main())
