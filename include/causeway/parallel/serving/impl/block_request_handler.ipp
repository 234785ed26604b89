// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_REQUEST_HANDLER_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_REQUEST_HANDLER_IPP

#include <causeway/parallel/serving/block_request_handler.hpp>

#include <algorithm>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL block_request_handler::block_request_handler(std::shared_ptr<net::fabric> fabric,
                                                           block_server_options options, const model_limits& limits,
                                                           log_sink log)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      limits_{limits},
      log_{std::move(log)},
      addresses_{options_.dial.begin(), options_.dial.end()} {}

CAUSEWAY_DECL void block_request_handler::take(net::peer_index link, const block_wire::probe& p) {
  post(link, block_wire::echo{p.mark});
}

CAUSEWAY_DECL void block_request_handler::take(net::peer_index, const block_wire::echo&) {}

CAUSEWAY_DECL void block_request_handler::listen() {
  fabric_->attach(this);
  fabric_->locked([this] { on_wake(); });
}

CAUSEWAY_DECL void block_request_handler::announce() {
  for (const auto& [link, s] : sessions_) announce(link);
}

CAUSEWAY_DECL std::vector<stage::served_span> block_request_handler::spans() {
  std::erase_if(others_, [now = fabric_->now()](const auto& one) { return one.second.until <= now; });
  std::vector<stage::served_span> all;
  for (const auto& [link, o] : others_) all.push_back(o.span);
  if (serving_.size() > 0) all.push_back({fabric_->id(), serving_, throughput()});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

CAUSEWAY_DECL void block_request_handler::finished(const admitted_request& r) {
  const auto found = sessions_.find(r.link);
  if (found == sessions_.end() || found->second.number != r.session) return;
  --found->second.requests;
  found->second.work -= r.what.work();
}

CAUSEWAY_DECL bool block_request_handler::connected(const admitted_request& r) const {
  const auto found = sessions_.find(r.link);
  return found != sessions_.end() && found->second.number == r.session;
}

CAUSEWAY_DECL void block_request_handler::send_away(net::peer_index link, const std::string& why) {
  log_(severity::warning, "a client is sent away: " + why);
  forget(link);
  fabric_->close(link, why);
}

CAUSEWAY_DECL double block_request_handler::throughput() const {
  return seconds_ > 0 ? 1.0 / (seconds_ * static_cast<double>(serving_.size())) : 1.0;
}

CAUSEWAY_DECL void block_request_handler::forget(net::peer_index link) {
  sessions_.erase(link);
  others_.erase(link);
  std::erase_if(incoming_, [link](const auto& r) { return r.link == link; });
}

CAUSEWAY_DECL void block_request_handler::announce(net::peer_index link) {
  if (serving_.size() == 0) return;
  double work = 0;  // of others: it knows its own
  for (const auto& [other, s] : sessions_) work += other == link ? 0 : s.work;
  const auto life = std::chrono::duration_cast<std::chrono::milliseconds>(options_.life).count();
  post(link, block_wire::announcement{static_cast<std::uint32_t>(life),
                                      {serving_, seconds_, work * seconds_, options_.most_requests, options_.most_rows},
                                      throughput()});
}

CAUSEWAY_DECL std::string block_request_handler::objection(const session& s, const block_wire::request& r) const {
  if (s.requests >= options_.most_requests) return "more requests at once than were announced";
  if (!r.adapters.fits(limits_.maps)) return "adapters beside maps that the model does not have";
  if (r.rows() + r.blocks.size() * r.tuning().rows(limits_.width, limits_.maps) > options_.most_rows) {
    return "more rows, with prompts and adapters, than were announced";
  }
  if (r.tokens > limits_.context || r.blocks.last > limits_.layers) return "more tokens or blocks than the model has";
  if (r.x_bytes > static_cast<std::size_t>(r.rows()) * limits_.most_bytes_a_row) return "more bytes than rows take";
  return {};
}

CAUSEWAY_INLINE void block_request_handler::on_up(net::peer_index link, net::peer_id id, const std::string& address) {
  sessions_[link] = {++last_session_, id, 0, 0, address};
  tell_addresses(link);
  announce(link);
}

CAUSEWAY_INLINE void block_request_handler::on_control(net::peer_index link, std::span<const std::byte> bytes) {
  if (!sessions_.contains(link)) return;  // it was sent away
  auto m = block_wire::decode(limits_.run, bytes);
  if (!m) return send_away(link, m.error().message);
  std::visit([&](auto& what) { take(link, what); }, *m);
}

CAUSEWAY_INLINE void block_request_handler::on_wake() {
  for (const std::string& a : addresses_) fabric_->dial(a);
  announce();
  fabric_->wake_at(fabric_->now() + options_.heartbeat);
}

CAUSEWAY_DECL void block_request_handler::take(net::peer_index link, const block_wire::request& r) {
  session& s = sessions_[link];
  if (const std::string why = objection(s, r); !why.empty()) return send_away(link, why);
  const admitted_request let_in{link, s.number, r, {}};
  ++s.requests;
  s.work += let_in.what.work();
  incoming_.push_back(let_in);
}

CAUSEWAY_DECL void block_request_handler::take(net::peer_index link, const block_wire::announcement& a) {
  if (a.offer.blocks.last > limits_.layers) return send_away(link, "blocks that the model does not have");
  const session& s = sessions_[link];
  others_[link] = {{s.id, a.offer.blocks, a.throughput}, fabric_->now() + std::chrono::milliseconds{a.milliseconds}};
  if (!s.address.empty()) learn(s.address);
}

CAUSEWAY_DECL void block_request_handler::take(net::peer_index, const block_wire::addresses& a) {
  for (const std::string& one : a.list) learn(one);
}

CAUSEWAY_DECL void block_request_handler::learn(const std::string& address) {
  if (address == fabric_->address() || addresses_.size() >= block_wire::most_addresses) return;
  if (!addresses_.insert(address).second) return;
  fabric_->dial(address);
  for (const auto& [link, s] : sessions_) tell_addresses(link);
}

CAUSEWAY_DECL void block_request_handler::tell_addresses(net::peer_index link) {
  block_wire::addresses all;
  for (const std::string& a : addresses_) {
    if (a.size() <= block_wire::longest_address) all.list.push_back(a);
  }
  if (!all.list.empty()) post(link, all);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_REQUEST_HANDLER_IPP
