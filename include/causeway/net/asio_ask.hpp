// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ASK_HPP
#define CAUSEWAY_NET_ASIO_ASK_HPP

// What somebody can ask at the address of a run before he is a peer of it, and knows more than that address: which run it
// is, and what its program has to say to newcomers, in pieces. One frame asks for one piece, the other side answers with
// it, and this again and again on one connection. A host of fixed peers and a fabric answer alike.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

/// The most bytes of one piece.
inline constexpr std::size_t max_piece_bytes = std::size_t{60} << 10U;

/// Gives the bytes of `item` from `offset` on: as many as it likes, at most max_piece_bytes. None where there is nothing:
/// the other side takes that for the end. Called in the event loop of the run: it must not block for long.
using piece_source = std::function<std::vector<std::byte>(std::uint32_t item, std::uint64_t offset)>;

namespace detail {

/// Answers strangers. Not thread-safe: all of it happens in one event loop.
class informant {
 public:
  explicit informant(piece_source pieces = {}) : pieces_{std::move(pieces)} {}
  ~informant() { stop(); }
  informant(const informant&) = delete;
  informant& operator=(const informant&) = delete;

  /// Takes a connection over whose first frame asked with `body`.
  void serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
    if (!pieces_) return who->refuse(fail(errc::unsupported, "", "this run tells newcomers nothing"));
    if (talks_.size() >= most_talks) {
      return who->refuse(fail(errc::too_large, "", "too many newcomers ask at once; try later"));
    }
    talks_.insert(who);
    who->on_end([this, who](const error&) { talks_.erase(who); });
    answer(who, run_id, body);
  }

  void stop() {
    for (const auto& who : std::exchange(talks_, {})) who->stop();
  }

 private:
  static constexpr std::size_t most_talks = 32;
  static constexpr std::size_t question_bytes = 64;
  static constexpr std::chrono::seconds patience{30};

  void answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
    byte_reader in{body};
    const auto item = in.get<std::uint32_t>();
    const auto offset = in.get<std::uint64_t>();
    if (const auto whole = in.finish("question"); !whole) {
      talks_.erase(who);
      return who->refuse(whole.error());
    }
    const std::vector<std::byte> piece = pieces_(item, offset);
    // The next question is read when this answer is out: a stranger costs one piece of memory, however much it asks for.
    who->say(frame_kind::told, run_id, 0, std::span{piece}.first(std::min(piece.size(), max_piece_bytes)),
             [this, who, run_id] { hear(who, run_id); });
  }

  void hear(const conversation_ptr& who, std::uint64_t run_id) {
    who->next(question_bytes, patience, [this, who, run_id](const frame_header& h, std::span<const std::byte> body) {
      if (h.kind == frame_kind::ask) return answer(who, run_id, body);
      talks_.erase(who);
      who->refuse(fail(errc::protocol, "", "it stopped asking"));
    });
  }

  piece_source pieces_;
  std::set<conversation_ptr> talks_;
};

}  // namespace detail

struct inquiry_options {
  time_point deadline = no_deadline;        ///< for an answer to come; dials again until then
  const std::atomic<bool>* stop = nullptr;  ///< set it to give up (errc::cancelled)
  bool once = false;                        ///< dial once, and end with errc::unreachable if nobody listens
};

/// A connection on which one asks. Blocks the calling thread; not thread-safe.
class inquiry {
 public:
  /// Dials `address` and asks for the first piece of item 0. errc::unreachable or errc::timeout if nobody answers, else
  /// what the other side says against it.
  static result<inquiry> open(const endpoint& address, const inquiry_options& options) {
    inquiry made{address, options};
    CAUSEWAY_TRY(made.connect());
    CAUSEWAY_TRY(made.read(0, 0, max_piece_bytes, [&](std::span<const std::byte> piece) -> result<void> {
      made.about_.assign(piece.begin(), piece.end());
      return {};
    }));
    return made;
  }

  [[nodiscard]] std::uint64_t run_id() const noexcept { return state_->run_id; }
  /// Item 0, of one piece.
  [[nodiscard]] const std::vector<std::byte>& about() const noexcept { return about_; }

  /// Reads `length` bytes of `item` from `offset` on, in order, and gives them to `sink`. errc::corrupt if there are fewer.
  /// Item 0 has one piece, however long.
  result<void> read(std::uint32_t item, std::uint64_t offset, std::uint64_t length,
                    const std::function<result<void>(std::span<const std::byte>)>& sink) {
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

 private:
  static constexpr std::uint64_t ahead = 16;
  static constexpr std::chrono::seconds patience{30};

  // What handlers point at: stays where it is when the inquiry moves.
  struct state {
    asio::io_context io;
    std::shared_ptr<detail::dialer> dialling;
    detail::conversation_ptr who;
    std::uint64_t run_id = 0;
    std::vector<std::byte> piece;
    bool answered = false;
    std::optional<error> failure;

    ~state() {
      if (dialling) dialling->stop();
      if (who) who->stop();
      io.restart();
      io.poll();
    }
  };

  inquiry(endpoint address, const inquiry_options& options)
      : address_{std::move(address)}, options_{options}, state_{std::make_unique<state>()} {}

  result<void> connect() {
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

  void ask(std::uint32_t item, std::uint64_t offset) {
    byte_writer body;
    body.put(item).put(offset);
    state_->who->say(frame_kind::ask, 0, 0, body.bytes());
  }

  result<std::vector<std::byte>> next_answer() {
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

  template <class Done>
  result<void> run_until(Done done, time_point deadline) {
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

  endpoint address_;
  inquiry_options options_;
  std::unique_ptr<state> state_;
  std::vector<std::byte> about_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_ASK_HPP
