// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_WAITS_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_WAITS_IPP

#include <causeway/train/member_waits.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL member_waits::member_waits(net::fabric& fabric, member_control& control, const member_options& options,
                                         log_sink log)
    : fabric_{&fabric}, control_{&control}, options_{&options}, log_{std::move(log)}, say_at_{options.say_after} {}

CAUSEWAY_DECL time_point member_waits::time_now() const {
  time_point now;
  locked([&] { now = fabric_->now(); });
  return now;
}

CAUSEWAY_DECL auto member_waits::look() const -> situation {
  situation now;
  locked([&] { now = control_->now_what(); });
  return now;
}

CAUSEWAY_DECL std::string member_waits::describe() const {
  std::string text;
  locked([&] { text = control_->describe(); });
  return text + fabric_->describe_waits();
}

CAUSEWAY_DECL void member_waits::say_waiting() const {
  const situation s = look();
  const std::string since = "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: ";
  if (!joined_in(s.is) || s.is == situation::kind::fetch) {
    log_(severity::waiting, since + std::string{to_string(s.is)} + (s.why.empty() ? "" : ", " + s.why));
  }
  log_(severity::info, since + describe());
}

CAUSEWAY_DECL void member_waits::stop_waiting() {
  waited_ = duration{0};
  say_at_ = options_->say_after;
}

CAUSEWAY_DECL result<void> member_waits::give_up_if_alone() const {
  std::optional<error> why;
  locked([&] { why = control_->alone_too_long(limit()); });
  return why ? result<void>{*why} : result<void>{};
}

CAUSEWAY_DECL result<void> member_waits::await_change(const situation& before) {
  CAUSEWAY_TRY(await([&](const situation& s) { return s.changes != before.changes; }));
  return {};
}

CAUSEWAY_DECL result<bool> member_waits::await_change_or_call(const situation& before) {
  if (!options_->called_away) {
    CAUSEWAY_TRY(await_change(before));
    return true;
  }
  for (;;) {
    if (options_->called_away()) return false;
    const auto over = [&] { return control_->now_what().changes != before.changes || options_->called_away(); };
    CAUSEWAY_ASSIGN(const bool happened, block_a_while(over, look_around));
    if (happened) return look().changes != before.changes;
    CAUSEWAY_TRY(give_up_if_alone());
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_WAITS_IPP
