// Runs electron-updater as an application on some system would: reads devices as
// JSON from its input, has each of them check for an update, and writes what came
// of it. Only what is Electron itself is made up.
"use strict"

const { readFileSync, writeFileSync, mkdtempSync } = require("fs")
const http = require("http")
const Module = require("module")
const path = require("path")
const { EventEmitter } = require("events")

const load = Module._load
Module._load = function (name, ...rest) {
  return name === "electron" ? { autoUpdater: new EventEmitter() } : load.call(this, name, ...rest)
}

const { AppImageUpdater, MacUpdater, NsisUpdater } = require("electron-updater")
const { ElectronHttpExecutor } = require("electron-updater/out/electronHttpExecutor")
const { findFile } = require("electron-updater/out/providers/Provider")

// The file that an application on Linux was started from, without which nothing is
// looked for.
process.env.APPIMAGE = "App.AppImage"

// Executor sends over Node what Electron's sends over Chromium.
class Executor extends ElectronHttpExecutor {
  createRequest(options, callback) {
    return http.request(options, callback)
  }
}

class App {
  constructor(device) {
    this.version = device.version
    this.name = "App"
    this.isPackaged = true
    this.userDataPath = this.baseCachePath = mkdtempSync(path.join(process.cwd(), "device-"))
    this.appUpdateConfigPath = path.join(this.userDataPath, "app-update.yml")
    writeFileSync(this.appUpdateConfigPath, "updaterCacheDirName: app\n")
    writeFileSync(path.join(this.userDataPath, ".updaterId"), device.id)
  }
  whenReady() {
    return Promise.resolve()
  }
  onQuit() {}
}

// The file that each kind of updater takes, as its doDownloadUpdate does.
const kinds = {
  win32: { Updater: NsisUpdater, pick: files => findFile(files, "exe") },
  linux: { Updater: AppImageUpdater, pick: files => findFile(files, "AppImage", ["rpm", "deb", "pacman"]) },
  darwin: {
    Updater: MacUpdater,
    pick: (files, arch) => findFile(MacUpdater.filterFilesForArch(files, arch === "arm64"), "zip", ["pkg", "dmg"]),
  },
}

async function check(device) {
  const { Updater, pick } = kinds[device.platform]
  Object.defineProperty(process, "arch", { value: device.arch })
  const updater = new Updater(null, new App(device))
  updater.httpExecutor = new Executor()
  updater._testOnlyOptions = { platform: device.platform }
  updater.logger = null
  updater.on("error", () => {})
  updater.autoDownload = false
  updater.disableDifferentialDownload = true
  updater.setFeedURL({ provider: "generic", url: device.url })
  if (device.channel) {
    updater.channel = device.channel
  }
  if (device.everybody) {
    updater.isUserWithinRollout = () => true
  }
  const told = { allowDowngrade: updater.allowDowngrade }
  try {
    const { isUpdateAvailable, updateInfo } = await updater.checkForUpdates()
    told.available = isUpdateAvailable
    told.version = updateInfo.version
    told.notes = updateInfo.releaseNotes
    told.date = updateInfo.releaseDate
    if (isUpdateAvailable) {
      const { provider } = updater.updateInfoAndProvider
      const file = pick(provider.resolveFiles(updateInfo), device.arch)
      told.file = file && file.url.href
    }
    if (device.download) {
      const [file] = await updater.downloadUpdate()
      told.content = readFileSync(file, "utf8")
    }
  } catch (e) {
    told.error = e.code || e.message
  }
  return told
}

async function main() {
  const all = []
  for (const device of JSON.parse(readFileSync(0, "utf8"))) {
    all.push(await check(device))
  }
  process.stdout.write(JSON.stringify(all))
}

main().catch(e => {
  console.error(e)
  process.exitCode = 1
})
