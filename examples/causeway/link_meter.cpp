// SPDX-License-Identifier: Apache-2.0
#include "link_meter.hpp"

namespace app {

void link_meter::met(causeway::net::peer_index at, causeway::net::peer_id who, const std::string& address) {
  const std::lock_guard lock{mutex_};
  link& l = links_[at];
  if (l.use.peer != who) l = {};  // the fabric gave the link to somebody else
  l.use.peer = who;
  l.use.address = address;
  l.use.up = true;
}

void link_meter::lost(causeway::net::peer_index at) {
  const std::lock_guard lock{mutex_};
  links_[at].use.up = false;
}

void link_meter::sent(causeway::net::peer_index at, causeway::net::operation op, std::size_t bytes,
                      causeway::time_point begin) {
  const std::lock_guard lock{mutex_};
  link& l = links_[at];
  l.use.bytes_sent += bytes;
  if (l.sends_under_way++ == 0) l.sending_since = begin;
  under_way_[op] = {at, true};
}

void link_meter::receiving(causeway::net::peer_index at, causeway::net::operation op) {
  const std::lock_guard lock{mutex_};
  under_way_[op] = {at, false};
}

void link_meter::waited(causeway::net::operation op, std::size_t bytes, causeway::time_point begin,
                        causeway::time_point now) {
  const std::lock_guard lock{mutex_};
  const auto known = under_way_.extract(op);
  if (!known) return;
  const transfer t = known.mapped();
  link& l = links_[t.link];
  l.use.waited_seconds += causeway::seconds(now - begin);
  if (!t.send) l.use.bytes_received += bytes;
  if (t.send && l.sends_under_way > 0 && --l.sends_under_way == 0) {
    l.use.sending_seconds += causeway::seconds(now - l.sending_since);
  }
}

void link_meter::waited_for(causeway::net::peer_index at, double seconds) {
  const std::lock_guard lock{mutex_};
  links_[at].use.waited_seconds += seconds;
}

void link_meter::told(causeway::net::peer_index at, const told_figures& figures) {
  const std::lock_guard lock{mutex_};
  links_[at].use.told = figures;
}

std::vector<link_use> link_meter::all() const {
  const std::lock_guard lock{mutex_};
  std::vector<link_use> found;
  for (const auto& [at, l] : links_) found.push_back(l.use);
  return found;
}

}  // namespace app
