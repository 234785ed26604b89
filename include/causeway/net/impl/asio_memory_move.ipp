// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP

#include <causeway/net/asio_memory_move.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL bool memory_move::consider(stream& s, std::uint64_t length) const {
  if (length < shared_from_bytes || shared_->self >= sender_ || !shared_->options.shared_memory) return false;
  if (std::exchange(s.memory_asked, true) || !is_near(s.socket)) return false;
  auto offer = memory_offer::make();
  if (!offer) return false;
  frame_header h = outbox_->header(frame_kind::memory_offer);
  h.id.step = offer->number();
  s.offer.emplace(std::move(*offer));
  s.notices.push_back(h);
  return true;
}

CAUSEWAY_DECL auto memory_move::hear(stream& s, const frame_header& h, bool closing) const -> result<next> {
  const bool answered = s.offer || (s.memory && !s.reads_memory);
  const bool fits = h.kind == frame_kind::memory_offer ? !s.memory_asked && sender_ < shared_->self : answered;
  if (!fits) return fail(errc::protocol, "", "it spoke of shared memory out of turn");
  if (h.kind == frame_kind::memory_offer) return answer(s, h.id.step, closing);
  if (h.kind == frame_kind::memory_taken) return follow(s);
  s.offer.reset();
  return next::nothing;
}

CAUSEWAY_DECL auto memory_move::answer(stream& s, std::uint64_t number, bool closing) const -> next {
  s.memory_asked = true;
  if (closing) return next::nothing;
  if (shared_->options.shared_memory && is_near(s.socket)) {
    if (auto made = memory_offer::take(number, s.socket.get_executor())) s.memory = std::move(*made);
  }
  s.notices.push_back(outbox_->header(s.memory ? frame_kind::memory_taken : frame_kind::memory_declined));
  return s.memory ? next::wake : next::write;
}

CAUSEWAY_DECL auto memory_move::follow(stream& s) const -> result<next> {
  if (s.begin != s.end) return fail(errc::protocol, "", "it goes on over TCP after it moved to shared memory");
  const bool ours = s.offer.has_value();
  if (ours) {
    auto made = s.offer->accept(s.socket.get_executor());
    if (!made) return made.error();
    s.memory = std::move(*made);
    s.offer.reset();
    s.notices.push_back(outbox_->header(frame_kind::memory_taken));
  }
  s.reads_memory = true;
  leave_tcp(s);
  return ours ? next::wake : next::write;
}

CAUSEWAY_DECL void memory_move::taken(stream& s) const {
  s.writes_memory = true;
  leave_tcp(s);
}

CAUSEWAY_DECL void memory_move::leave_tcp(stream& s) const {
  if (!s.reads_memory || !s.writes_memory) return;
  std::error_code ignored;
  s.socket.close(ignored);
  shared_->options.log(severity::debug, name_ + ": it is on this machine; we talk through shared memory");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP
