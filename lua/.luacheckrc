-- HAProxy's Lua: 5.3 and 5.4, with the object core. Nothing else is global.
std = "lua53"
read_globals = {
  core = {
    fields = {
      "httpclient", "log", "msleep", "now", "register_action", "register_converters", "register_fetches",
      "register_task", "thread", "warning", "notice",
    },
  },
}
