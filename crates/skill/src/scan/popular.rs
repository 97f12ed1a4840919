//! Names of popular packages, and similar names that are not imitations.

/// Packages that many skills use, as pip spells them.
pub(super) const PYPI: &[&str] = &[
    "aiofiles", "aiohttp", "alembic", "anthropic", "anyio", "arrow", "asyncio", "attrs",
    "azure-core", "azure-storage-blob", "beautifulsoup4", "black", "bokeh", "boto", "boto3",
    "botocore", "bs4", "cachetools", "celery", "certifi", "cffi", "chardet", "charset-normalizer",
    "chromadb", "click", "colorama", "coverage", "cryptography", "cython", "dash", "datasets",
    "dateparser", "diffusers", "discord-py", "django", "docker", "docutils", "docx", "duckdb",
    "elasticsearch", "faker", "fastapi", "filelock", "fire", "flake8", "flask", "fonttools",
    "fpdf", "fpdf2", "fsspec", "gensim", "geopandas", "gitpython", "google-api-python-client",
    "google-auth", "google-cloud-storage", "gradio", "greenlet", "grpcio", "gunicorn", "h5py",
    "html5lib", "httplib2", "httpx", "huggingface-hub", "hypothesis", "idna", "imageio",
    "importlib-metadata", "ipython", "isort", "jinja", "jinja2", "joblib", "jsonschema", "jupyter",
    "keras", "kubernetes", "langchain", "lightgbm", "loguru", "lxml", "markdown", "markdown2",
    "markupsafe", "matplotlib", "mkdocs", "mock", "moto", "msgpack", "multidict", "mypy",
    "mysqlclient", "networkx", "nltk", "notebook", "numba", "numpy", "oauthlib", "openai",
    "opencv-python", "openpyxl", "orjson", "packaging", "pandas", "paramiko", "pdf2image",
    "pdfplumber", "peewee", "pendulum", "pillow", "playwright", "plotly", "polars", "protobuf",
    "psutil", "psycopg", "psycopg2", "psycopg2-binary", "pyarrow", "pyasn1", "pycparser",
    "pycryptodome", "pycryptodomex", "pydantic", "pygame", "pygments", "pyinstaller", "pyjwt",
    "pylint", "pymongo", "pymupdf", "pymysql", "pynacl", "pyopenssl", "pyparsing", "pypdf",
    "pypdf2", "pypdf3", "pypdfium2", "pyserial", "pytesseract", "pytest", "pytest-cov",
    "python-dateutil", "python-docx", "python-dotenv", "python-jose", "python-multipart",
    "python-pptx", "pytorch", "pytz", "pywin32", "pyyaml", "qrcode", "rapidfuzz", "redis", "regex",
    "reportlab", "requests", "requests-oauthlib", "rich", "ruff", "s3transfer", "scikit-image",
    "scikit-learn", "scipy", "scrapy", "seaborn", "selenium", "sentence-transformers",
    "sentry-sdk", "setuptools", "simplejson", "six", "soupsieve", "spacy", "sphinx", "sqlalchemy",
    "sqlmodel", "starlette", "statsmodels", "streamlit", "sympy", "tabulate", "tenacity",
    "tensorflow", "termcolor", "textblob", "tiktoken", "tokenizers", "toml", "tomli", "tomlkit",
    "torch", "torchaudio", "torchvision", "tornado", "tqdm", "transformers", "twilio", "typer",
    "typing-extensions", "tzdata", "ujson", "unstructured", "urllib3", "uvicorn", "virtualenv",
    "wand", "watchdog", "weasyprint", "websocket-client", "websockets", "werkzeug", "wheel",
    "wrapt", "xgboost", "xlrd", "xlsxwriter", "xlwt", "xmltodict", "yarl", "youtube-dl", "yt-dlp",
    "zstandard",
];

/// Python module names whose misspelling would matter.
pub(super) const PYTHON_MODULES: &[&str] = &[
    "aiohttp", "anthropic", "boto3", "botocore", "celery", "certifi", "chardet", "click",
    "colorama", "cryptography", "dateutil", "django", "docker", "dotenv", "fastapi", "flask",
    "gensim", "gradio", "httpx", "httplib2", "jinja2", "joblib", "jsonschema", "keras",
    "kubernetes", "langchain", "loguru", "markdown", "matplotlib", "networkx", "numba", "numpy",
    "openai", "openpyxl", "pandas", "paramiko", "pdfplumber", "plotly", "polars", "psutil",
    "psycopg", "psycopg2", "pyarrow", "pydantic", "pygments", "pymongo", "pymysql", "pypdf",
    "PyPDF2", "pytesseract", "pytest", "redis", "reportlab", "requests", "scipy", "scrapy",
    "seaborn", "selenium", "setuptools", "simplejson", "sklearn", "spacy", "sqlalchemy",
    "streamlit", "tabulate", "tensorflow", "termcolor", "tiktoken", "torch", "torchvision",
    "tornado", "transformers", "urllib3", "uvicorn", "websockets", "werkzeug",
];

pub(super) const NPM: &[&str] = &[
    "ajv", "angular", "archiver", "async", "axios", "babel", "bcrypt", "bluebird", "body-parser",
    "bootstrap", "chalk", "cheerio", "chokidar", "classnames", "cli-table3", "colors", "commander",
    "cookie-parser", "core-js", "cors", "cross-env", "cross-spawn", "csv-parse", "csv-parser",
    "d3", "date-fns", "dayjs", "debug", "discord.js", "docx", "dotenv", "ejs", "electron",
    "esbuild", "eslint", "ethers", "event-stream", "exceljs", "execa", "express", "fast-glob",
    "fast-xml-parser", "ffmpeg", "fs-extra", "glob", "got", "graphql", "gulp", "handlebars",
    "husky", "immutable", "inquirer", "ioredis", "jest", "joi", "jquery", "js-yaml", "jsdom",
    "jsonwebtoken", "jszip", "knex", "koa", "lodash", "lodash-es", "luxon", "mammoth",
    "markdown-it", "marked", "minimatch", "minimist", "mkdirp", "mocha", "moment", "mongodb",
    "mongoose", "morgan", "multer", "mysql", "mysql2", "nanoid", "next", "node-fetch",
    "nodemailer", "nodemon", "npm", "openai", "ora", "passport", "pdf-lib", "pdf-parse", "pdfkit",
    "playwright", "postcss", "pptxgenjs", "preact", "prettier", "prisma", "prop-types",
    "puppeteer", "puppeteer-core", "react", "react-dom", "react-router", "redux", "request",
    "rimraf", "rollup", "rxjs", "sass", "semver", "sequelize", "sharp", "socket.io", "sqlite3",
    "styled-components", "svelte", "tailwindcss", "three", "ts-node", "tslib", "typescript",
    "underscore", "undici", "uuid", "validator", "vite", "vitest", "vue", "vuex", "web3",
    "webpack", "winston", "ws", "xlsx", "xml2js", "yaml", "yargs", "yup", "zod",
];

/// Real packages and modules of Python and Node whose names are one edit away from a popular one.
pub(super) const UNRELATED: &[&str] = &[
    "aredis", "attr", "cattrs", "color", "colour", "dataset", "enquirer", "event", "events",
    "fakeredis", "flash", "html", "html5", "http", "jose", "marker", "mongo", "nexus", "numbers",
    "platform", "preact", "profile", "pymssql", "pypdf4", "queue", "regexp", "rsync", "scapy",
    "select", "simpy", "space", "spark", "sqlite", "string", "tables", "token", "touch", "tree",
    "types", "typing", "urllib", "validators", "xml-js", "yarn",
];

/// Names that were used for imitations, and the imitated names.
pub(super) const SQUATS: &[(&str, &str)] = &[
    ("beautifulsup4", "beautifulsoup4"),
    ("colourama", "colorama"),
    ("crossenv", "cross-env"),
    ("cross-env.js", "cross-env"),
    ("djanga", "django"),
    ("electorn", "electron"),
    ("event-strem", "event-stream"),
    ("fabrice", "fabric"),
    ("jeilyfish", "jellyfish"),
    ("loadsh", "lodash"),
    ("lodahs", "lodash"),
    ("python3-dateutil", "python-dateutil"),
    ("python-sqlite", "sqlite3"),
    ("reqeusts", "requests"),
    ("setup-tools", "setuptools"),
    ("urlib3", "urllib3"),
    ("urllib", "urllib3"),
];
