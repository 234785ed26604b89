// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_LINE_IPP
#define CAUSEWAY_COMM_IMPL_HUB_LINE_IPP

#include <causeway/comm/hub_line.hpp>

#include <causeway/collective/channels.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL void nap(net::any_transport& transport, net::peer_index other, time_point end) {
  constexpr std::uint32_t silent = collective::channel_stride - 1;
  std::byte none{};
  const auto op = transport.receive(other, {.channel = collective::channels::updates + silent}, std::span{&none, 1});
  (void)transport.wait(op, end);
}

CAUSEWAY_DECL bool hub_line::arrived() {
  listen();
  return receive_.done();
}

CAUSEWAY_DECL result<std::span<const std::byte>> hub_line::take(time_point deadline) {
  listen();
  const auto moved = receive_.wait(deadline);
  if (!moved) return moved.error();
  ++received_;
  return std::span<const std::byte>{buffer_}.first(*moved);
}

CAUSEWAY_DECL void hub_line::send(std::vector<std::byte> bytes) {
  departure& last = outgoing_.emplace_back();
  last.bytes = std::move(bytes);
  last.operation = {transport_, transport_.send(peer_, {.channel = out_, .step = sent_++}, last.bytes)};
}

CAUSEWAY_DECL result<void> hub_line::sweep() {
  while (!outgoing_.empty() && outgoing_.front().operation.done()) CAUSEWAY_TRY(end_oldest(time_point{}));
  return {};
}

CAUSEWAY_DECL result<void> hub_line::flush(time_point deadline) {
  while (!outgoing_.empty()) CAUSEWAY_TRY(end_oldest(deadline));
  return {};
}

CAUSEWAY_DECL void hub_line::listen() {
  if (receive_.started()) return;
  receive_ = {transport_, transport_.receive(peer_, {.channel = in_, .step = received_}, buffer_)};
}

CAUSEWAY_DECL result<void> hub_line::end_oldest(time_point deadline) {
  const auto moved = outgoing_.front().operation.wait(deadline);
  outgoing_.pop_front();
  if (!moved) return moved.error();
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_LINE_IPP
