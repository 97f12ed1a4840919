/** The cases that every SDK must pass. */

import { test } from "vitest";

import { loadCases, runCase } from "./conformance.mjs";
import { required } from "./support.js";

required("SKILLBOX_TEST_STANDIN");
test.each(await loadCases())("$name", (one) => runCase(one));
