// Builds the two npm packages of a release:
//
//     npm.mjs SDK_DIRECTORY PROGRAM OUTPUT_DIRECTORY
//
// OUTPUT_DIRECTORY becomes a package with the program, which npm installs only on this platform. The built SDK gets it as
// an optional dependency, and a command that starts the program, so that `npm install skillbox` is enough.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [sdk, program, output] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(sdk, "package.json"), "utf8"));
const name = `skillbox-${process.platform}-${process.arch}`;

const write = (directory, content) =>
  writeFileSync(join(directory, "package.json"), JSON.stringify(content, null, 2) + "\n");

mkdirSync(join(output, "bin"), { recursive: true });
copyFileSync(program, join(output, "bin", "skillbox"));
chmodSync(join(output, "bin", "skillbox"), 0o755);
copyFileSync(join(sdk, "LICENSE"), join(output, "LICENSE"));
write(output, {
  name,
  version: manifest.version,
  description: `The program skillbox for ${process.platform} on ${process.arch}.`,
  license: manifest.license,
  os: [process.platform],
  cpu: [process.arch],
  libc: ["glibc"],
  bin: { skillbox: "bin/skillbox" },
  files: ["bin", "LICENSE"],
});

mkdirSync(join(sdk, "bin"), { recursive: true });
copyFileSync(new URL("skillbox.js", import.meta.url), join(sdk, "bin", "skillbox.js"));
write(sdk, {
  ...manifest,
  bin: { skillbox: "bin/skillbox.js" },
  files: [...manifest.files, "bin"],
  optionalDependencies: { [name]: manifest.version },
});
