// SPDX-License-Identifier: Apache-2.0
// Safetensors files of strangers: whatever the bytes are, they are refused with a message, or they are what they say.

#include <causeway/formats/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace causeway;

void must(bool holds) {
  if (!holds) std::abort();
}

// All bytes behind the header belong to one tensor each, and can be read.
void check(const formats::safetensors_header& header, std::span<const std::byte> file) {
  std::uint64_t at = header.tensors.empty() ? file.size() : header.tensors.front().begin;
  for (const formats::tensor_entry& t : header.tensors) {
    must(t.begin == at && t.end >= t.begin && t.end <= file.size());
    at = t.end;
    const auto bytes = file.subspan(t.begin, t.end - t.begin);
    must(bytes.size() == static_cast<std::size_t>(t.count()) * formats::size_of(t.type));
    std::vector<float> values(static_cast<std::size_t>(t.count()));
    (void)formats::to_floats(t.type, bytes, 0, values);
  }
  must(at == file.size());
}

// What is written of it reads back as the same, and writing that changes nothing any more.
io::byte_vector written(const formats::safetensors_header& header, std::span<const std::byte> file) {
  std::vector<formats::tensor_source> tensors;
  for (const formats::tensor_entry& t : header.tensors) {
    tensors.push_back({t.name, t.type, t.shape, io::produce(file.subspan(t.begin, t.end - t.begin))});
  }
  io::byte_vector out;
  const auto done = formats::safetensors(std::move(tensors), header.metadata)([&](std::span<const std::byte> piece) {
    out.insert(out.end(), piece.begin(), piece.end());
    return result<void>{};
  });
  must(done.has_value());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file{reinterpret_cast<const std::byte*>(data), size};
  const auto header = formats::read_safetensors(file, "input");
  if (!header) {
    must(!header.error().message.empty());
    return 0;
  }
  check(*header, file);
  const auto once = written(*header, file);
  const auto again = formats::read_safetensors(once, "written");
  must(again.has_value() && again->tensors.size() == header->tensors.size() && again->metadata == header->metadata);
  check(*again, once);
  must(written(*again, once) == once);
  return 0;
}
