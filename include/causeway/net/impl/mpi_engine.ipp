// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP

#include <causeway/net/mpi_engine.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mpi_engine::mpi_engine(mpi_communicator line, const mpi_transport_options& options)
    : line_{std::move(line)}, options_{options}, heard_(sizeof(word) + options.inline_bytes) {}

CAUSEWAY_DECL result<void> mpi_engine::open() {
  void* bound = nullptr;
  int known = 0;
  CAUSEWAY_TRY(mpi_check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &known), "MPI's tags"));
  tags_ = static_cast<std::uint64_t>(known != 0 ? *static_cast<int*>(bound) : 32767);
  return hear();
}

CAUSEWAY_DECL result<void> mpi_engine::hear() {
  return mpi_check(MPI_Irecv(heard_.data(), static_cast<int>(heard_.size()), MPI_BYTE, MPI_ANY_SOURCE, word_tag,
                             line_.handle, &hearing_),
                   "hearing the other ranks");
}

// What was said and not waited for, such as words, still has to go out.
CAUSEWAY_INLINE mpi_engine::~mpi_engine() {
  if (!line_.process->usable()) return;
  const time_point deadline = line_.clock.now() + options_.close_grace;
  const auto gone = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
    CAUSEWAY_TRY(look(pause));
    return requests_.empty();
  });
  if (!gone || !*gone) {
    line_.process->fail_for_good(fail(errc::peer_lost, "MPI", "another rank did not take what was sent before the end"));
    return;
  }
  (void)MPI_Cancel(&hearing_);
  (void)MPI_Wait(&hearing_, MPI_STATUS_IGNORE);
}

CAUSEWAY_DECL operation mpi_engine::refuse(const pending_operation& what, error why) {
  const slot_index slot = table_.start(what);
  table_.finish(slot, std::move(why));
  return table_.handle(slot);
}

CAUSEWAY_DECL operation mpi_engine::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  pending_operation what{.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()};
  if (to == self() || to >= size())
    return refuse(what, fail(errc::invalid_argument, peer_name(to), "no such peer, or the peer itself"));
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const word named{id, bytes.size(), pieces_, bytes.size() <= options_.inline_bytes};
  counters_.bytes_sent += bytes.size() + sizeof(word);
  ++counters_.frames_sent;
  result<void> started = send_word(to, named, named.inlined != 0 ? bytes : std::span<const std::byte>{});
  if (started && named.inlined == 0) {
    started = start_pieces(named, bytes.size(), slot, nullptr, [&](std::size_t at, int count, int tag, MPI_Request* r) {
      return MPI_Isend(bytes.data() + at, count, MPI_BYTE, static_cast<int>(to), tag, line_.handle, r);
    });
    pieces_ += (bytes.size() + most_at_once - 1) / most_at_once;
  } else if (started) {
    table_[slot].moved = bytes.size();
    table_.finish(slot);
  }
  if (!started) table_.finish(slot, line_.process->fail_for_good(started.error()));
  return table_.handle(slot);
}

CAUSEWAY_DECL operation mpi_engine::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  pending_operation what{.peer = from, .id = id, .target = buffer.data(), .length = buffer.size()};
  if (from == self() || from >= size())
    return refuse(what, fail(errc::invalid_argument, peer_name(from), "no such peer, or the peer itself"));
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const auto m = std::find_if(kept_.begin(), kept_.end(), [&](const message& k) {
    return k.from == from && k.taker == no_slot && !k.dropped && matches(k.named.id, id);
  });
  if (m == kept_.end()) {
    waiting_.push_back(slot);
  } else if (auto delivered = deliver(m, slot); !delivered) {
    table_.finish(slot, line_.process->fail_for_good(delivered.error()));
  }
  return table_.handle(slot);
}

// Of the own length, as a send; its peer is this one, which no message has.
CAUSEWAY_DECL operation mpi_engine::sum(std::span<float> data) {
  pending_operation what{.is_send = true, .peer = self(), .length = data.size_bytes()};
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const auto started =
      start_pieces(word{}, data.size_bytes(), slot, nullptr, [&](std::size_t at, int bytes, int, MPI_Request* r) {
        return MPI_Iallreduce(MPI_IN_PLACE, data.data() + at / sizeof(float), bytes / static_cast<int>(sizeof(float)),
                              MPI_FLOAT, MPI_SUM, line_.handle, r);
      });
  const std::size_t moves = 2 * data.size_bytes() / size() * (size() - 1);
  counters_.bytes_sent += moves;
  counters_.bytes_received += moves;
  if (data.empty()) table_.finish(slot);
  if (!started) table_.finish(slot, line_.process->fail_for_good(started.error()));
  return table_.handle(slot);
}

CAUSEWAY_DECL result<void> mpi_engine::send_word(peer_index to, const word& named, std::span<const std::byte> inlined) {
  std::vector<std::byte> text(sizeof named + inlined.size());
  std::memcpy(text.data(), &named, sizeof named);
  if (!inlined.empty()) std::memcpy(text.data() + sizeof named, inlined.data(), inlined.size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(mpi_check(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, static_cast<int>(to), word_tag,
                                   line_.handle, &request),
                         "sending"));
  requests_.push_back(request);
  flights_.push_back({.own = std::move(text)});
  return {};
}

/// One request for each GiB.
template <class Start>
result<void> mpi_engine::start_pieces(const word& named, std::size_t length, slot_index slot, message* kept,
                                      Start&& start) {
  std::uint64_t piece = named.first;
  for (std::size_t at = 0; at < length; at += most_at_once) {
    const std::size_t bytes = std::min(most_at_once, length - at);
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(mpi_check(start(at, static_cast<int>(bytes), tag_of(piece++), &request), "moving a message"));
    requests_.push_back(request);
    flights_.push_back({.slot = slot, .kept = kept, .bytes = bytes});
  }
  return {};
}

CAUSEWAY_DECL result<void> mpi_engine::take_in(peer_index from, const word& named, std::byte* into, slot_index slot,
                                               message* kept) {
  return start_pieces(named, named.length, slot, kept, [&](std::size_t at, int count, int tag, MPI_Request* r) {
    return MPI_Irecv(into + at, count, MPI_BYTE, static_cast<int>(from), tag, line_.handle, r);
  });
}

CAUSEWAY_DECL result<void> mpi_engine::keep(peer_index from, const word& named, const std::byte* inlined) {
  counters_.bytes_received += named.length + sizeof(word);
  ++counters_.frames_received;
  kept_.push_back({.from = from, .named = named});
  const auto m = std::prev(kept_.end());
  if (named.inlined != 0) {
    m->here = true;
    m->bytes.assign(inlined, inlined + named.length);
    kept_size_ += named.length;
  }
  return offer(m);
}

// To the receive that has waited the longest. Else its content is taken in where there is room, so that its sender can go
// on.
CAUSEWAY_DECL result<void> mpi_engine::offer(messages::iterator m) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](slot_index s) {
    return table_[s].peer == m->from && matches(table_[s].id, m->named.id);
  });
  if (found != waiting_.end()) {
    const slot_index slot = *found;
    waiting_.erase(found);
    return deliver(m, slot);
  }
  if (m->here || kept_size_ + m->named.length > options_.kept_bytes) return {};
  return fetch(*m);
}

// The content of a message that is still with its sender.
CAUSEWAY_DECL result<void> mpi_engine::fetch(message& m) {
  m.here = true;
  m.missing = m.named.length;
  m.bytes.resize(m.named.length);
  kept_size_ += m.named.length;
  return take_in(m.from, m.named, m.bytes.data(), no_slot, &m);
}

CAUSEWAY_DECL result<void> mpi_engine::deliver(messages::iterator m, slot_index slot) {
  pending_operation& op = table_[slot];
  if (m->named.id.parent != op.id.parent) {
    refuse_message(m, slot, errc::wrong_parent, "its message is based on another committed state than ours");
  } else if (m->named.length > op.length) {
    refuse_message(m, slot, errc::too_large,
                   "it sent " + std::to_string(m->named.length) + " bytes where at most " + std::to_string(op.length) +
                       " are expected");
  } else if (m->here) {
    m->taker = slot;
    if (m->missing == 0) hand_over(m);
    return {};
  } else {
    const message taken = std::move(*m);
    kept_.erase(m);
    op.taken = taken.named.length;  // how much is coming: `length` is the room
    return take_in(taken.from, taken.named, op.target, slot, nullptr);
  }
  if (!m->dropped || m->here) return {};
  return fetch(*m);  // to be thrown away
}

CAUSEWAY_DECL void mpi_engine::hand_over(messages::iterator m) {
  if (m->taker != no_slot) {
    pending_operation& op = table_[m->taker];
    if (!m->bytes.empty()) std::memcpy(op.target, m->bytes.data(), m->bytes.size());
    op.moved = m->bytes.size();
    table_.finish(m->taker);
  }
  kept_size_ -= m->bytes.size();
  kept_.erase(m);
}

CAUSEWAY_DECL void mpi_engine::refuse_message(messages::iterator m, slot_index slot, errc code, std::string why) {
  ++counters_.frames_rejected;
  table_.finish(slot, fail(code, peer_name(m->from), std::move(why)));
  m->dropped = true;
  if (m->here && m->missing == 0) hand_over(m);
}

CAUSEWAY_DECL result<bool> mpi_engine::progress() {
  if (line_.process->failure) return *line_.process->failure;
  auto moved = take_words();
  if (moved) {
    auto more = end_flights();
    if (!more || *more) moved = std::move(more);
  }
  if (!moved) return line_.process->fail_for_good(moved.error());
  return moved;
}

CAUSEWAY_DECL result<bool> mpi_engine::take_words() {
  for (bool moved = false;; moved = true) {
    int flag = 0;
    MPI_Status status;
    CAUSEWAY_TRY(mpi_check(MPI_Test(&hearing_, &flag, &status), "hearing the other ranks"));
    if (flag == 0) return moved;
    word named;
    std::memcpy(&named, heard_.data(), sizeof named);
    CAUSEWAY_TRY(keep(static_cast<peer_index>(status.MPI_SOURCE), named, heard_.data() + sizeof named));
    CAUSEWAY_TRY(hear());
  }
}

CAUSEWAY_DECL result<bool> mpi_engine::end_flights() {
  if (requests_.empty()) return false;
  const auto count = static_cast<int>(requests_.size());
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended_now = 0;
  const int code = MPI_Testsome(count, requests_.data(), &ended_now, indices_.data(), statuses_.data());
  CAUSEWAY_TRY(mpi_check(code, "moving messages"));
  if (ended_now <= 0) return false;
  std::sort(indices_.begin(), indices_.begin() + ended_now, std::greater<>{});  // the last one takes the place of each
  for (int i = 0; i < ended_now; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    const flight f = std::move(flights_[at]);
    flights_[at] = std::move(flights_.back());
    requests_[at] = requests_.back();
    flights_.pop_back();
    requests_.pop_back();
    ended(f);
  }
  return true;
}

CAUSEWAY_DECL void mpi_engine::ended(const flight& f) {
  if (f.slot != no_slot) {
    pending_operation& op = table_[f.slot];
    op.moved += f.bytes;
    if (op.moved == (op.is_send ? op.length : op.taken)) table_.finish(f.slot);
  } else if (f.kept != nullptr) {
    f.kept->missing -= f.bytes;
    if (f.kept->missing > 0 || (f.kept->taker == no_slot && !f.kept->dropped)) return;
    hand_over(std::find_if(kept_.begin(), kept_.end(), [&](const message& m) { return &m == f.kept; }));
  }
}

CAUSEWAY_DECL result<std::size_t> mpi_engine::wait(operation wanted, time_point deadline) {
  const slot_index slot = table_.find(wanted);
  if (slot == no_slot) {
    return fail(errc::invalid_argument, peer_name(self()), "waited for an operation that is not under way");
  }
  if (!table_.done(wanted)) {
    const auto ended = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
      CAUSEWAY_TRY(look(pause));
      return table_[slot].done;
    });
    if (!ended) return give_up(slot, ended.error());
    if (!*ended) {
      const peer_index peer = table_[slot].peer;
      return give_up(slot, peer == self() ? fail(errc::timeout, "a sum of all ranks",
                                                 "not all have come to it before the deadline; raise it or look at them")
                                          : fail(errc::timeout, peer_name(peer),
                                                 "no answer before the deadline; raise it or look at that peer"));
    }
  }
  return table_.release(slot);
}

// A receive that no bytes are on the way to is forgotten. What MPI holds must end, or be the last.
CAUSEWAY_DECL result<std::size_t> mpi_engine::give_up(slot_index slot, error why) {
  const auto unanswered = std::find(waiting_.begin(), waiting_.end(), slot);
  const auto taken = std::find_if(kept_.begin(), kept_.end(), [&](const message& m) { return m.taker == slot; });
  if (unanswered != waiting_.end()) {
    waiting_.erase(unanswered);
  } else if (taken != kept_.end()) {
    taken->taker = no_slot;
    if (auto offered = offer(taken); !offered) line_.process->fail_for_good(offered.error());
  } else if (!line_.process->failure) {
    const time_point end = line_.clock.now() + options_.close_grace;
    const auto late = mpi_poll(line_.clock, *line_.process, end, [&](mpi_pause& pause) -> result<bool> {
      CAUSEWAY_TRY(look(pause));
      return table_[slot].done;
    });
    if (late && *late) return table_.release(slot);
    why.message += "; MPI still holds its memory, so this rank's use of MPI ends here";
    line_.process->fail_for_good(why);
  }
  table_.finish(slot, std::move(why));
  return table_.release(slot);
}

CAUSEWAY_DECL bool mpi_engine::done(operation op) {
  if (!table_.done(op) && line_.process->usable()) (void)progress();
  return table_.done(op) || line_.process->failure.has_value();
}

CAUSEWAY_DECL bool mpi_engine::wait_any(std::span<const operation> ops, time_point deadline) {
  const auto any = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
    if (line_.process->failure || std::any_of(ops.begin(), ops.end(), [&](operation op) { return table_.done(op); })) {
      return true;
    }
    CAUSEWAY_TRY(look(pause));
    return false;
  });
  return any.value_or(false);
}

CAUSEWAY_DECL std::string mpi_engine::describe() const {
  std::string text;
  table_.for_each_unfinished([&](const pending_operation& op) {
    text += op.peer == self()
                ? "adding up with all ranks"
                : std::string{op.is_send ? "sending to " : "receiving from "} + peer_name(op.peer) + ", " + to_text(op.id);
    text += ": " + std::to_string(op.moved) + " of " + std::to_string(op.length) + " bytes\n";
  });
  return text;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP
