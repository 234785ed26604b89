// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_FORMATS_STORED_HPP
#define CAUSEWAY_TESTS_FORMATS_STORED_HPP

// The models that tests/golden/formats/make_formats.py has stored, and what they are compared with.

#include <causeway/formats/safetensors.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::testing {

/// The path of a stored file or folder.
inline std::string stored(const std::string& name) {
  return (std::filesystem::path{__FILE__}.parent_path() / ".." / "golden" / "formats" / name).lexically_normal().string();
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>{in}, {}};
}

inline std::vector<float> floats_of(const formats::safetensors_file& file, const std::string& name) {
  for (const formats::tensor_entry& t : file.tensors()) {
    if (t.name != name) continue;
    std::vector<float> values(static_cast<std::size_t>(t.count()));
    REQUIRE(formats::to_floats(t.type, file.bytes(t), 0, values));
    return values;
  }
  FAIL("no tensor " << name << " in " << file.path());
  return {};
}

/// What transformers computed with a stored model.
struct expected {
  std::vector<std::int32_t> inputs;  ///< two rows of 16 tokens
  std::vector<std::int32_t> targets;
  std::vector<float> logits;  ///< of each row's last position
  std::vector<float> losses;  ///< before each AdamW step of 0.01 without weight decay
};

inline expected expected_of(const std::string& model) {
  const auto file = formats::safetensors_file::open(stored(model + "/expected.safetensors"));
  REQUIRE(file);
  expected e{{}, {}, floats_of(*file, "logits"), floats_of(*file, "losses")};
  const auto tokens = floats_of(*file, "tokens");
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (i % 17 == 16) continue;
    e.inputs.push_back(static_cast<std::int32_t>(tokens[i]));
    e.targets.push_back(static_cast<std::int32_t>(tokens[i + 1]));
  }
  return e;
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_FORMATS_STORED_HPP
