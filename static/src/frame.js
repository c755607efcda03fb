// What each page of the portal runs: htmx and the modules that keep the frame alive.
import { startAskingAgain } from "./ask_again.js";
import { startCopyFields } from "./copy.js";
import { startDrawer } from "./drawer.js";
import { startHtmx } from "./fragments.js";
import { startLive } from "./live.js";
import { startMenus } from "./menus.js";
import { startShortcuts } from "./shortcuts.js";
import { startThemeSwitch } from "./theme_switch.js";
import { startPalette } from "./palette.js";
import { startReading } from "./read.js";
import { startTimes } from "./times.js";
import { startToasts } from "./toasts.js";

startHtmx();
startThemeSwitch();
startMenus();
startCopyFields();
startTimes();
startToasts();
startReading();
startPalette();
startShortcuts();
startDrawer();
startLive(document.body.dataset);
startAskingAgain();
