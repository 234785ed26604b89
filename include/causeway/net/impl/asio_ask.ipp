// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_ASK_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ASK_IPP

#include <causeway/net/asio_ask.hpp>
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/frame.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct inquiry::state {
  asio::io_context io;
  std::shared_ptr<detail::dialer> dialling;
  detail::conversation_ptr who;
  std::uint64_t run_id = 0;
  std::vector<std::byte> piece;
  bool answered = false;
  std::optional<error> failure;

  state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    if (dialling) dialling->stop();
    if (who) who->stop();
    io.restart();
    io.poll();
  }
};

CAUSEWAY_DECL inquiry::inquiry(endpoint address, const inquiry_options& options)
    : address_{std::move(address)}, options_{options}, state_{std::make_unique<state>()} {}

CAUSEWAY_INLINE inquiry::inquiry(inquiry&&) noexcept = default;
CAUSEWAY_INLINE inquiry& inquiry::operator=(inquiry&&) noexcept = default;
CAUSEWAY_INLINE inquiry::~inquiry() = default;

CAUSEWAY_DECL std::uint64_t inquiry::run_id() const noexcept { return state_->run_id; }

CAUSEWAY_DECL result<inquiry> inquiry::open(const endpoint& address, const inquiry_options& options) {
  inquiry made{address, options};
  CAUSEWAY_TRY(made.connect());
  CAUSEWAY_TRY(made.read(0, 0, max_piece_bytes, [&](std::span<const std::byte> piece) -> result<void> {
    made.about_.assign(piece.begin(), piece.end());
    return {};
  }));
  return made;
}

CAUSEWAY_DECL result<void> inquiry::read(std::uint32_t item, std::uint64_t offset, std::uint64_t length,
                                         const std::function<result<void>(std::span<const std::byte>)>& sink) {
  constexpr std::uint64_t ahead = 16;  // pieces asked for before the first is there
  const std::uint64_t end = offset + length;
  std::uint64_t asked = offset;
  while (offset < end) {
    // Pieces ahead of the answer, as long as the other side sends whole ones.
    for (; asked < end && asked < offset + ahead * max_piece_bytes; asked += max_piece_bytes) ask(item, asked);
    CAUSEWAY_ASSIGN(const std::vector<std::byte> piece, next_answer());
    const std::uint64_t wanted = item == 0 ? piece.size() : std::min<std::uint64_t>(max_piece_bytes, end - offset);
    if (piece.empty() || piece.size() != wanted) {
      return fail(errc::corrupt, address_.text(),
                  "it sent " + std::to_string(piece.size()) + " bytes of a piece of " + std::to_string(wanted));
    }
    CAUSEWAY_TRY(sink(piece));
    if (item == 0) return {};
    offset += piece.size();
  }
  return {};
}

CAUSEWAY_DECL result<void> inquiry::run_until(const std::function<bool()>& done, time_point deadline) {
  state& s = *state_;
  const steady_clock clock;
  while (!done() && !s.failure) {
    if (options_.stop != nullptr && options_.stop->load()) {
      return fail(errc::cancelled, address_.text(), "stopped on request");
    }
    if (clock.now() >= deadline) return fail(errc::timeout, address_.text(), "nobody answered in time");
    s.io.restart();
    s.io.run_one_for(std::chrono::milliseconds{50});
  }
  if (!s.failure) return {};
  return fail(s.failure->code, address_.text(), s.failure->message);
}

CAUSEWAY_DECL result<void> inquiry::connect() {
  state& s = *state_;
  const auto connected = [&s](const detail::conversation_ptr& who) {
    s.who = who;
    who->on_end([&s](const error& why) { s.failure = why; });
  };
  detail::dialer::failure_handler failed;
  if (options_.once) failed = [&s](const error& why) { s.failure = why; };
  s.dialling = std::make_shared<detail::dialer>(s.io, address_, connected, failed);
  s.dialling->dial();
  const auto outcome = run_until([&s] { return s.who != nullptr; }, options_.deadline);
  if (outcome || outcome.error().code != errc::timeout) return outcome;
  const std::string why = s.dialling->last_failure();
  return fail(errc::unreachable, address_.text(),
              "nobody answers there" + (why.empty() ? std::string{} : ": " + why) +
                  "; give the address of a peer that is in the run now");
}

CAUSEWAY_DECL void inquiry::ask(std::uint32_t item, std::uint64_t offset) {
  byte_writer body;
  body.put(item).put(offset);
  state_->who->say(frame_kind::ask, 0, 0, body.bytes());
}

CAUSEWAY_DECL result<std::vector<std::byte>> inquiry::next_answer() {
  constexpr std::chrono::seconds patience{30};
  state& s = *state_;
  s.answered = false;
  s.who->next(max_handshake_bytes, patience, [this, &s](const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::refused) {
      s.failure = detail::read_refusal(address_.text(), body);
    } else if (h.kind != frame_kind::told || h.run_id == 0) {
      s.failure = fail(errc::protocol, address_.text(), "it answered out of turn");
    } else {
      s.run_id = h.run_id;
      s.piece.assign(body.begin(), body.end());
      s.answered = true;
    }
  });
  CAUSEWAY_TRY(run_until([&s] { return s.answered; }, no_deadline));
  return std::move(s.piece);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_ASK_IPP
