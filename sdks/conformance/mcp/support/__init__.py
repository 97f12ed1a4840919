"""What the tests of MCP stand on: clients under remote control, a live server with its skills, processes."""
