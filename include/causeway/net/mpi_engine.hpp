// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MPI_ENGINE_HPP
#define CAUSEWAY_NET_MPI_ENGINE_HPP

// What is behind net::mpi_transport: messages as words that name them and pieces that carry them, requests of MPI that are
// under way, and sums. Only bodies include it: it has MPI's own types.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/mpi_library.hpp>
#include <causeway/net/mpi_options.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one rank. As the transport: one thread.
class mpi_engine {
 public:
  CAUSEWAY_DECL mpi_engine(mpi_communicator line, const mpi_transport_options& options);
  mpi_engine(const mpi_engine&) = delete;
  mpi_engine& operator=(const mpi_engine&) = delete;
  ~mpi_engine();

  CAUSEWAY_DECL result<void> open();
  [[nodiscard]] peer_index self() const { return static_cast<peer_index>(line_.rank); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size); }
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  CAUSEWAY_DECL operation sum(std::span<float> data);
  [[nodiscard]] bool sums() const { return options_.own_sums; }
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL bool done(operation op);
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);
  [[nodiscard]] traffic stats() const { return counters_; }
  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

 private:
  /// What a message is, ahead of its content. Ranks of a job run the same program on the same kind of machine.
  struct word {
    message_id id;
    std::uint64_t length = 0;
    std::uint64_t first = 0;  ///< the number of its first piece among all that its sender ever sent
    std::uint64_t inlined = 0;
  };

  /// One whose word is here, and which no receive has taken.
  struct message {
    peer_index from = 0;
    word named;
    std::vector<std::byte> bytes{};
    std::size_t missing = 0;     ///< bytes that are under way to `bytes`
    bool here = false;           ///< `bytes` has, or will have, the content; else it is still with its sender
    slot_index taker = no_slot;  ///< a receive that waits for the content
    bool dropped = false;        ///< nobody wants it; its content is taken in all the same, so that its sender can go on
  };
  using messages = std::list<message>;

  /// What a request of MPI is for; one of the three.
  struct flight {
    std::vector<std::byte> own{};  ///< a word under way
    slot_index slot = no_slot;     ///< part of this operation
    message* kept = nullptr;       ///< part of this message
    std::size_t bytes = 0;
  };

  static constexpr int word_tag = 0;
  static bool matches(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  [[nodiscard]] int tag_of(std::uint64_t piece) const { return 1 + static_cast<int>(piece % tags_); }
  CAUSEWAY_DECL operation refuse(const pending_operation& what, error why);
  CAUSEWAY_DECL result<void> hear();
  CAUSEWAY_DECL result<void> send_word(peer_index to, const word& named, std::span<const std::byte> inlined);
  template <class Start>
  result<void> start_pieces(const word& named, std::size_t length, slot_index slot, message* kept, Start&& start);
  CAUSEWAY_DECL result<void> take_in(peer_index from, const word& named, std::byte* into, slot_index slot, message* kept);
  CAUSEWAY_DECL result<void> keep(peer_index from, const word& named, const std::byte* inlined);
  CAUSEWAY_DECL result<void> fetch(message& m);
  CAUSEWAY_DECL result<void> offer(messages::iterator m);
  CAUSEWAY_DECL result<void> deliver(messages::iterator m, slot_index slot);
  CAUSEWAY_DECL void hand_over(messages::iterator m);
  CAUSEWAY_DECL void refuse_message(messages::iterator m, slot_index slot, errc code, std::string why);
  CAUSEWAY_DECL result<bool> progress();
  result<void> look(mpi_pause& pause) {
    CAUSEWAY_ASSIGN(const bool moved, progress());
    if (moved) pause.reset();
    return {};
  }
  CAUSEWAY_DECL result<bool> take_words();
  CAUSEWAY_DECL result<bool> end_flights();
  CAUSEWAY_DECL void ended(const flight& f);
  CAUSEWAY_DECL result<std::size_t> give_up(slot_index slot, error why);

  mpi_communicator line_;
  mpi_transport_options options_;
  std::uint64_t tags_ = 1;
  operation_table table_;
  std::vector<slot_index> waiting_;  ///< receives that no message has answered, oldest first
  messages kept_;
  std::size_t kept_size_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<flight> flights_;  ///< of requests_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::byte> heard_;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  std::uint64_t pieces_ = 0;
  traffic counters_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/mpi_engine.ipp>
#endif

#endif  // CAUSEWAY_NET_MPI_ENGINE_HPP
