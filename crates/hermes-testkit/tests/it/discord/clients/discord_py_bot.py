"""A bot on discord.py that does what it is told. It runs until its input ends."""

import asyncio
import json
import sys
import urllib.request

import discord
import yarl

BASE, TOKEN = sys.argv[1:3]
discord.http.Route.BASE = BASE
# A client without shards does not ask where the gateway is.
asked = urllib.request.Request(f"{BASE}/gateway/bot", headers={"Authorization": f"Bot {TOKEN}"})
with urllib.request.urlopen(asked) as reply:
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(json.load(reply)["url"])
discord.utils.setup_logging()


class Answer(discord.ui.View):
    def __init__(self):
        super().__init__(timeout=None)

    @discord.ui.button(label="Yes", custom_id="yes")
    async def pressed(self, interaction, button):
        await interaction.response.edit_message(content="pressed", view=None)
        await interaction.followup.send("noted", ephemeral=True)


class Bot(discord.Client):
    async def setup_hook(self):
        self.tree = discord.app_commands.CommandTree(self)

        @self.tree.command(name="hello", description="Says hello")
        async def hello(interaction: discord.Interaction, whom: str):
            await interaction.response.send_message(f"hello {whom}", ephemeral=True)

        @self.tree.command(name="slow", description="Thinks first")
        async def slow(interaction: discord.Interaction):
            await interaction.response.defer()
            await interaction.edit_original_response(content="thought about it")

        self.add_view(Answer())
        await self.tree.sync()

    async def on_ready(self):
        print("ready", self.user.id, flush=True)

    async def on_message(self, message):
        if message.author.id == self.user.id:
            return
        if message.attachments:
            content = await message.attachments[0].read()
            await message.channel.send(f"got {content.decode()}")
            return
        text = message.content.replace(self.user.mention, "").strip()
        if text == "ping":
            await message.reply("pong")
        elif text == "thread":
            thread = await message.create_thread(name="topic")
            await thread.send("in the thread")
        elif text == "edit":
            posted = await message.channel.send("before")
            await posted.edit(content="after")
        elif text == "delete":
            posted = await message.channel.send("soon gone")
            await posted.delete()
        elif text == "button":
            await message.channel.send("press", view=Answer())
        elif text == "upload":
            data = __import__("io").BytesIO(b"content")
            await message.channel.send("a file", file=discord.File(data, filename="a.txt"))
        elif text == "type":
            async with message.channel.typing():
                await message.add_reaction("\N{THUMBS UP SIGN}")
        elif text == "history":
            found = [m.content async for m in message.channel.history(limit=3)]
            await message.channel.send(" | ".join(found))


async def main():
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
    async with Bot(intents=intents) as bot:
        running = asyncio.create_task(bot.start(TOKEN))
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()


asyncio.run(main())
